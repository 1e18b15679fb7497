"""dcgm-exporter's text, and the stretches of time that its scrapes speak for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.exposition import Exposition
from gpuledger.charge.files import as_text, instant, read_bytes, time_in_name
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.windows import HOUR_NS, NS_PER_S

NS_PER_MS = 1_000_000
DEFAULT_FOR_NS = HOUR_NS


@dataclass(frozen=True)
class Scrape:
    """One scrape and when it was taken; ``stated`` is how that time is known."""

    path: Path
    at_ns: int
    stated: str
    exposition: Exposition


class Stretch(NamedTuple):
    """[start_ns, end_ns) and the scrape that speaks for it, None where none was given."""

    start_ns: int
    end_ns: int
    scrape: Scrape | None


def read_scrapes(arguments: Iterable[str], at: str | None) -> list[Scrape]:
    """The scrapes of ``FILE`` or ``FILE@TIME``, in order of time. ``at`` is the time of the only one.

    Raises ConfigError where a file is no scrape, or two have one time.
    """
    scrapes = [_read(argument) for argument in arguments]
    if at is not None and len(scrapes) == 1:
        scrapes = [Scrape(scrapes[0].path, instant(at, "--at"), "", scrapes[0].exposition)]
    scrapes.sort(key=lambda scrape: scrape.at_ns)
    for one, other in pairwise(scrapes):
        if one.at_ns == other.at_ns:
            message = f"and {one.path.name} have the same time; give each its own: {other.path.name}@TIME"
            raise ConfigError(message, str(other.path))
    return scrapes


def _read(argument: str) -> Scrape:
    path, given = Path(argument), None
    if not path.exists() and "@" in argument:
        name, _, time = argument.rpartition("@")
        path, given = Path(name), instant(time, argument)
    exposition = parse_exposition(as_text(read_bytes(path), path))
    if not exposition.samples:
        raise ConfigError(
            "has no line of a GPU in it; expected the text of dcgm-exporter's /metrics", str(path)
        )
    if given is not None:
        return Scrape(path, given, "", exposition)
    if exposition.time_ms is not None:
        return Scrape(path, exposition.time_ms * NS_PER_MS, "", exposition)
    named = time_in_name(path)
    if named is not None:
        return Scrape(path, named, "", exposition)
    written = path.stat().st_mtime_ns // NS_PER_S * NS_PER_S
    return Scrape(path, written, "when the file was last written", exposition)


def stretches(scrapes: Sequence[Scrape], for_ns: int | None, end_ns: int) -> list[Stretch]:
    """What is charged: of several scrapes the time between each two, the later one speaking for it; of one
    the hour before it. ``for_ns``: exactly so long up to the last, or up to ``end_ns`` where there is none.
    """
    if not scrapes:
        return [Stretch(end_ns - (for_ns or DEFAULT_FOR_NS), end_ns, None)]
    first, last = scrapes[0].at_ns, scrapes[-1].at_ns
    found = [Stretch(one.at_ns, other.at_ns, other) for one, other in pairwise(scrapes)]
    if for_ns is None and found:
        return found
    begin = last - (for_ns or DEFAULT_FOR_NS)
    before = [Stretch(begin, first, scrapes[0])] if begin < first else []
    later = [stretch for stretch in found if stretch.end_ns > begin]
    return [*before, *(stretch._replace(start_ns=max(stretch.start_ns, begin)) for stretch in later)]
