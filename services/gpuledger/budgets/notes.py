"""What people said about breaches: acknowledged, silenced, and until when."""

from __future__ import annotations

from typing import NamedTuple

from gpuledger.contract.records import Breach, BreachNote

KINDS = ("acknowledged", "silenced", "cleared")


class Said(NamedTuple):
    """What holds for a breach."""

    acknowledged_by: str = ""
    acknowledged_until_ns: int | None = None
    silenced_by: str = ""
    silenced_until_ns: int | None = None


class Notes:
    """The newest word on each breach and each budget; what names the breach goes before its budget."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, BreachNote]] = {}

    def add(self, note: BreachNote) -> None:
        """Take a note in, in the order of the topic. ``cleared`` takes back all that was said."""
        target = note.breach_id or f"budget {note.budget_id}"
        if note.kind == "cleared":
            self._said.pop(target, None)
        elif note.kind in KINDS:
            self._said.setdefault(target, {})[note.kind] = note

    def on(self, breach: Breach) -> Said:
        """What holds for a breach. A silence has its end in it; whoever tells people looks at that."""
        found = dict(self._said.get(f"budget {breach.budget_id}", {}))
        found.update(self._said.get(breach.id, {}))
        acknowledged, silenced = found.get("acknowledged"), found.get("silenced")
        return Said(
            acknowledged.who if acknowledged else "",
            acknowledged.until_ns if acknowledged else None,
            silenced.who if silenced else "",
            silenced.until_ns if silenced else None,
        )
