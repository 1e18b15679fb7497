"""The text of dcgm-exporter as lines: where a series begins and ends, its labels and its value.

The exporter prints label values without escaping, so a quote, a backslash or a line break in a pod's label
breaks the format: labels are found by what follows a closing quote, a line that was broken is joined again,
and a value is what stands behind the last closing brace, whatever a label holds before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_JOINED_LINES: Final = 64  # a label value with more line breaks than that is no label

# every repetition is bounded, so that no text takes more than linear time
OPEN = re.compile(r"\s{0,64}([A-Za-z_:][A-Za-z0-9_:]{0,254})\s{0,64}\{")
_FIRST_LABEL = re.compile(r'\s{0,64}(?:[A-Za-z_]\w{0,254}\s{0,64}=\s{0,64}"|\})', re.ASCII)
_END_OF_LABELS = re.compile(r'(?:"[\s,.]{0,16}|(?<=\{)\s{0,64})\}')
_REST = re.compile(
    r'\s{0,64}(?P<value>[^\s#"{}]{1,64})(?:\s{1,64}(?P<time>-?[0-9][0-9.eE+-]{0,31}))?\s{0,64}'
)
_REST_CHARACTERS: Final = 4 * 64 + 32
_EXEMPLAR = re.compile(
    r"[ \t]#[ \t]{0,16}\{[^{}]{0,256}\}[ \t]{1,16}[0-9.eE+-]{1,32}(?:[ \t][0-9.eE+-]{1,32})?\s{0,64}\Z"
)
_MAY_HAVE_EXEMPLAR = ("_total", "_bucket")
"""OpenMetrics gives exemplars to counters and buckets alone; on a gauge what looks like one is in a label."""
_LABEL = re.compile(
    r'(?:\A\s{0,64}|"\s{0,64},\s{0,64}(?:\.{3},)?)([A-Za-z_]\w{0,254})\s{0,64}=\s{0,64}"', re.ASCII
)
"""A label begins the block, or follows a closing quote. Bug reports shorten lists of labels to three dots."""
BARE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,254})[ \t]{1,64}([^\s#]{1,64})(?:[ \t]{1,64}[^\s#]{1,32})?")
NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?|inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)
_COMMENTS = ("# HELP", "# TYPE", "# UNIT", "# EOF")
_NO_VALUES = frozenset({"n/a", "[n/a]", "null", "none"})


class UnreadableLine(Exception):
    """A line that says nothing certain; it never leaves the parser."""


def logical_lines(text: str) -> Iterator[list[str]]:
    """Lines with content, those together that a line break in a label value has torn apart."""
    torn: list[str] = []
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        comment = line.lstrip().startswith("#")
        if torn:
            if not (_begins(line) or (comment and line.lstrip().startswith(_COMMENTS))):
                torn.append(line)
                if end_of_labels(line) or len(torn) >= MAX_JOINED_LINES:
                    yield torn
                    torn = []
                continue
            yield _without_blank_end(torn)
            torn = []
        if not line.strip() or comment:
            continue
        if (opened := OPEN.match(line)) and not end_of_labels(line, opened):
            torn = [line]
        else:
            yield [line]
    if torn:
        yield _without_blank_end(torn)


def _begins(line: str) -> bool:
    """Whether a series begins here."""
    opened = OPEN.match(line)
    if opened:
        return _FIRST_LABEL.match(line, opened.end()) is not None
    bare = BARE.fullmatch(line.strip()) if len(line) < 1024 else None
    return bare is not None and NUMBER.fullmatch(bare[2]) is not None


def _without_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end > 1 and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def end_of_labels(line: str, opened: re.Match[str] | None = None) -> tuple[int, re.Match[str]] | None:
    """(where the labels end, value and time) by the last closing brace that a value follows. ``opened``:
    where the labels begin, if they begin in this line."""
    text = line
    if opened is not None and opened[1].endswith(_MAY_HAVE_EXEMPLAR):
        text = _EXEMPLAR.sub("", text)
    first = max(opened.end() if opened is not None else 0, len(text) - _REST_CHARACTERS)
    for end in reversed(list(_END_OF_LABELS.finditer(text, max(0, first - 1)))):
        rest = _REST.fullmatch(text, end.end())
        if rest is not None and (opened is None or end.start() >= opened.end()):
            return end.start(), rest
    return None


def labels_of(block: str) -> dict[str, str]:
    """Labels by lower-case name; of two with one name the first, which the exporter itself wrote."""
    marks = list(_LABEL.finditer(block))
    ends = [*(mark.start() for mark in marks[1:]), len(block)]
    labels: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=False):  # without a label there is one end too many
        labels.setdefault(mark[1].lower(), block[mark.end() : end])
    return labels


def number_of(text: str) -> float | None:
    """The value, None where the text says that there is none. Raises UnreadableLine."""
    if NUMBER.fullmatch(text):
        return float(text)
    if (text.startswith("<<<") and ">>>" in text) or text.lower() in _NO_VALUES:
        return None
    raise UnreadableLine
