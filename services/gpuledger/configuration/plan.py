"""What publishing a document means: its number, and the instant from which it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuledger.contract.errors import Refused
from gpuledger.contract.records import BudgetsVersion
from gpuledger.contract.windows import MINUTE_NS, NS_PER_S
from gpuledger.pricing.check import day
from gpuledger.pricing.yaml_documents import Version

MIN_AHEAD_NS = MINUTE_NS  # every reader has the version before the first window that it holds for
MARGIN_NS = 15 * NS_PER_S  # between planning and the broker's acknowledgement


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a document. ``version`` is the published one, or the last one where it is unchanged;
    ``known`` are those that were there before."""

    kind: str
    version: Version
    unchanged: bool
    known: tuple[Version, ...] = ()

    @property
    def last(self) -> Version | None:
        """The newest of those that were there before."""
        return max(self.known, key=lambda version: version.version, default=None)


def plan_version(
    document: Version,
    known: Sequence[Version],
    now_ns: int,
    active_from_ns: int | None,
    charged: bool,
    author: str = "",
    comment: str = "",
    restates_past: bool = False,
) -> Version | None:
    """The version to publish, None where the document is the last one unchanged.

    It holds from ``active_from_ns``; by default as early as it may: from the beginning for a first version
    while nothing was charged, else a minute ahead and a margin, at a whole minute. Raises Refused for an
    instant less than 60 s ahead, since windows that start before it may have been charged.
    """
    last = max(known, key=lambda version: version.version, default=None)
    if last is not None and last.document_sha256 == document.document_sha256:
        return None
    free = last is None and not charged
    earliest = now_ns + MIN_AHEAD_NS
    if active_from_ns is None:
        soonest = earliest + MARGIN_NS
        active_from_ns = 0 if free else -(-soonest // MINUTE_NS) * MINUTE_NS
    elif active_from_ns < earliest and not free:
        raise Refused(
            f"active from {day(active_from_ns)} is not 60 s ahead: windows that start then may have been "
            f"charged. The earliest now is {day(earliest)}; what it changes of the past acts through a "
            "generation, which `config apply` announces"
        )
    if not isinstance(document, BudgetsVersion):  # no budget changes a charge
        document = replace(document, restates_past=restates_past)
    return replace(
        document,
        version=(last.version if last else 0) + 1,
        active_from_ns=active_from_ns,
        created_ns=now_ns,
        author=author,
        comment=comment,
    )
