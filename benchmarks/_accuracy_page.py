"""The tables of docs/accuracy.md, from the figure that is committed beside it.

``python -m benchmarks._accuracy_page`` takes the figure that ``python -m benchmarks.accuracy`` wrote to
build/figures, keeps it as docs/accuracy.json and writes the page's tables anew; ``--again`` writes them from
what is there. Nothing between the page's marks is written by hand; a test holds the page against the file.
A mix above 5 points without a reason in _accuracy_reasons.py is an error: find its cause first.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._accuracy_reasons import REASONS
from benchmarks.figures import FIGURES_DIR
from tests.accuracy.mixes import mixes

DOCS = Path(__file__).parents[1] / "docs"
PAGE, KEPT = DOCS / "accuracy.md", DOCS / "accuracy.json"
EXPLAINED_ABOVE = 5.0  # points
COLUMNS = {
    "all": "all",
    "busy_estimated + device": "calls + device's total",
    "busy_estimated": "calls alone",
    "process_measured": "NVML per process",
    "equal_active": "equal parts",
    "launch counts": "launch counts",
}
"""Evidence of the figure -> as the page calls it."""
ROUGH = ("equal_active", "launch counts")  # they are there to show what the rest is worth
SYNCHRONISING = tuple(mix.name for mix in mixes() if mix.synchronises)
"""The mixes in which every process waits for its work soon."""
LIMITS = {"busy_estimated + device": 2.0, "busy_estimated": 5.0}
COVERED = 0.95
_MARK = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Sets = dict[str, Any]


class Above(NamedTuple):
    """A mix that some evidence has wrong by more than 5 points, in some set."""

    evidence: str
    mix: str


class MissingReason(Exception):
    """A mix is above 5 points and nobody has said why."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of docs/accuracy.md.")
    parser.add_argument("--again", action="store_true", help="from docs/accuracy.json as it is")
    if not parser.parse_args().again:
        figure = json.loads((FIGURES_DIR / "accuracy.json").read_text())
        page(figure["sets"], PAGE.read_text())  # a reason that is missing is said before anything is written
        KEPT.write_text(json.dumps(kept(figure["sets"]), indent=1) + "\n")
    PAGE.write_text(page(json.loads(KEPT.read_text()), PAGE.read_text()))
    print(f"wrote {PAGE} from {KEPT}")


def kept(sets: Sets) -> Sets:
    """What is committed of a figure."""
    return {
        label: {
            "made": found["made"],
            "evidence": {
                evidence: {
                    "mixes": {
                        mix: {name: round(value, 6) for name, value in one.items()}
                        for mix, one in whole["mixes"].items()
                    }
                }
                for evidence, whole in found["evidence"].items()
            },
        }
        for label, found in sets.items()
    }


def page(sets: Sets, text: str) -> str:
    """The page with every part between marks written anew. Raises MissingReason."""
    parts = {
        "targets": targets(sets),
        "reasons": reasons(sets),
        **{label.replace(" ", "-"): table(label, sets[label]) for label in sets},
    }

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}{parts[found[2]]}{found[3]}"

    return _MARK.sub(part, text)


def median_of_max(whole: dict[str, Any], names: tuple[str, ...] | None = None) -> float:
    """The middle of the mixes' largest errors, over all mixes or over those named."""
    largest = sorted(whole["mixes"][name]["max"] for name in names or whole["mixes"])
    middle = len(largest) // 2
    return float(largest[middle] if len(largest) % 2 else (largest[middle - 1] + largest[middle]) / 2)


def covered(whole: dict[str, Any]) -> float:
    """The part of the windows in which the stated interval held the truth."""
    mixes_of = whole["mixes"].values()
    return float(sum(one["covered"] for one in mixes_of) / sum(one["windows"] for one in mixes_of))


def table(label: str, found: dict[str, Any]) -> str:
    """Errors of each mix by each evidence, and what they come to."""
    made, evidence = found["made"], found["evidence"]
    rows = [("mix", *COLUMNS.values()), ("---",) * (1 + len(COLUMNS))]
    for mix in evidence["all"]["mixes"]:
        rows.append((mix, *(_cell(name, evidence[name]["mixes"][mix]) for name in COLUMNS)))
    rows.append(("**median of the largest**", *(f"**{median_of_max(evidence[n]):.1f}**" for n in COLUMNS)))
    of_some = (f"**{median_of_max(evidence[name], SYNCHRONISING):.1f}**" for name in COLUMNS)
    rows.append(("**of those who synchronise**", *of_some))
    stated = ("" if name == "launch counts" else f"**{covered(evidence[name]):.0%}**" for name in COLUMNS)
    rows.append(("**covered**", *stated))
    how = f"seed {made['seed']}, {made['windows']} windows of each mix, {made['lanes']} mixes at a time"
    head = f"{label.capitalize()}: {how}, load average {made['load_average']:.0f}.\n\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(evidence: str, one: dict[str, float]) -> str:
    width = "" if evidence == "launch counts" else f" ({one['width']:.0f})"
    return f"{one['mean']:.1f} / {one['max']:.1f}{width}"


def targets(sets: Sets) -> str:
    """What was wanted of the medians and of the intervals, and what came."""
    lines = []
    for evidence, limit in LIMITS.items():
        names = SYNCHRONISING if evidence == "busy_estimated" else None
        over = f"the {len(SYNCHRONISING)} mixes in which processes synchronise" if names else "all mixes"
        came = {label: median_of_max(found["evidence"][evidence], names) for label, found in sets.items()}
        said = ", ".join(f"{label} {value:.1f}" for label, value in came.items())
        holds = "holds" if max(came.values()) <= limit else "**does not hold**"
        lines.append(
            f"- median over {over} of the largest error, {COLUMNS[evidence]}: at most {limit:.0f} points;"
            f" {said}: {holds}\n"
        )
    least = min(
        covered(whole)
        for found in sets.values()
        for evidence, whole in found["evidence"].items()
        if evidence != "launch counts"
    )
    holds = "holds" if least >= COVERED else "**does not hold**"
    lines.append(
        f"- the interval covers the truth in at least {COVERED:.0%} of windows; by the weakest evidence"
        f" {least:.1%}: {holds}\n"
    )
    others = [name for name in sets["tuned"]["evidence"]["all"]["mixes"] if name not in SYNCHRONISING]
    lines.append(f"\nMixes with a process that does not synchronise: {'; '.join(others)}.\n")
    return "".join(lines)


def above(sets: Sets) -> Iterator[Above]:
    """Every mix above 5 points, by evidence, in the order of the tables; baselines are not explained."""
    for evidence in COLUMNS:
        for mix in sets["tuned"]["evidence"][evidence]["mixes"]:
            largest = max(found["evidence"][evidence]["mixes"][mix]["max"] for found in sets.values())
            if evidence not in ROUGH and largest > EXPLAINED_ABOVE:
                yield Above(evidence, mix)


def reasons(sets: Sets) -> str:
    """The mixes above 5 points with what their intervals say and why."""
    labels = list(sets)
    rows = [
        ("evidence", "mix", *(f"{label}: largest (interval), covered" for label in labels), "why"),
        ("---",) * (3 + len(labels)),
    ]
    said: set[str] = set()
    for one in above(sets):
        reason = REASONS.get(one)
        if reason is None:
            raise MissingReason(f"{one.mix} by {one.evidence} is above {EXPLAINED_ABOVE:.0f} points: say why")
        found = (sets[label]["evidence"][one.evidence]["mixes"][one.mix] for label in labels)
        cells = (
            f"{f['max']:.1f} ({f['width']:.0f}), {f['covered']:.0f} of {f['windows']:.0f}" for f in found
        )
        why = f"as {_first(one, sets)}" if reason in said else reason
        said.add(reason)
        rows.append((COLUMNS[one.evidence], one.mix, *cells, why))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _first(wanted: Above, sets: Sets) -> str:
    return next(one.mix for one in above(sets) if REASONS.get(one) == REASONS[wanted])


if __name__ == "__main__":
    main()
