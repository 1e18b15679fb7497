"""Published versions of a document, and which of them holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, Protocol, TypeVar

from gpuledger.contract.errors import Refused
from gpuledger.contract.records import PriceBookVersion, TeamMapVersion
from gpuledger.pricing.book import PriceBook
from gpuledger.pricing.teams import TeamMap


class _Numbered(Protocol):
    version: int


class _Dated(Protocol):
    @property
    def active_from_ns(self) -> int:
        """The instant from which it holds."""


V = TypeVar("V", bound=_Numbered)
D = TypeVar("D", bound=_Dated)


class _Versions(Generic[V, D]):
    """Versions of one kind of document by their number. A window has the newest one that is active at its
    start, or the one that its generation pins."""

    _called: ClassVar[str]

    def __init__(self, versions: Iterable[V], read: Callable[[V], D], none: D) -> None:
        self._known: dict[int, D] = {}
        for version in versions:  # of two with one number the first holds
            if version.version not in self._known:
                self._known[version.version] = read(version)
        self._none = none

    def at(self, window_start_ns: int, version: int | None = None) -> D:
        """The one for a window. ``version`` pins one; 0 is the empty one. Raises Refused where the pinned
        version is not known."""
        if version is not None:
            return self._pinned(version)
        active = [number for number, one in self._known.items() if one.active_from_ns <= window_start_ns]
        return self._known[max(active)] if active else self._none

    def _pinned(self, version: int) -> D:
        if version == 0:
            return self._none
        if version not in self._known:
            known = sorted(self._known)
            raise Refused(f"version {version} of the {self._called} is not known; known are {known}")
        return self._known[version]

    @property
    def active_from_ns(self) -> list[int]:
        """The instants from which versions hold, in no order."""
        return [one.active_from_ns for one in self._known.values()]

    @property
    def last_version(self) -> int:
        """Number of the newest version, 0 without any."""
        return max(self._known, default=0)


class Prices(_Versions[PriceBookVersion, PriceBook]):
    """Every version of the price book."""

    _called = "prices"

    def __init__(self, versions: Iterable[PriceBookVersion] = ()) -> None:
        super().__init__(versions, PriceBook, PriceBook.empty())


class Teams(_Versions[TeamMapVersion, TeamMap]):
    """Every version of the team map."""

    _called = "teams"

    def __init__(self, versions: Iterable[TeamMapVersion] = ()) -> None:
        super().__init__(versions, TeamMap, TeamMap.empty())
