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

    def on(self, breach: Breach, begun: int = 0) -> Said:
        """What holds for a breach whose life began with the change ``begun``. A silence has its end in it;
        whoever tells people looks at that."""
        found = dict(self._said.get(f"budget {breach.budget_id}", {}))
        of_breach = self._said.get(breach.id, {})
        found.update((kind, note) for kind, note in of_breach.items() if not _is_past(note, begun))
        acknowledged, silenced = found.get("acknowledged"), found.get("silenced")
        return Said(
            acknowledged.who if acknowledged else "",
            acknowledged.until_ns if acknowledged else None,
            silenced.who if silenced else "",
            silenced.until_ns if silenced else None,
        )


def _is_past(note: BreachNote, begun: int) -> bool:
    """Whether it was for the life of a breach, and that life is over."""
    return note.until_ns is None and note.change is not None and note.change < begun
