"""How idle and borrowed time is shared out."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.contract.errors import Refused
from gpuledger.contract.windows import NS_PER_S

BURSTS = ("pay",)


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices that move money between consumers; none of them changes a total.

    ``burst`` ``pay``: who uses above his entitlement pays for it, and relieves the holders who lent.
    Raises Refused for a policy that this core does not know.
    """

    burst: str = "pay"

    def __post_init__(self) -> None:
        if self.burst not in BURSTS:
            raise Refused(f"burst policy {self.burst!r} is not one of {', '.join(BURSTS)}")

    def name(self, window_length_ns: int) -> str:
        """Name on the rows; the window's length belongs to it, since it decides who pays for idle moments."""
        seconds, rest = divmod(window_length_ns, NS_PER_S)
        return f"{self.burst}/{seconds}s" if not rest else f"{self.burst}/{window_length_ns}ns"
