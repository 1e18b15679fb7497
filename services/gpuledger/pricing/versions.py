"""All versions of a configuration document, and which of them holds for a window."""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.contract.errors import Refused
from gpuledger.contract.records import PriceBookVersion, TeamMapVersion
from gpuledger.pricing.book import PriceBook
from gpuledger.pricing.teams import TeamMap


class Prices:
    """Every version of the price book. A window takes the greatest version that is active at its start,
    or the one that its generation pins."""

    def __init__(self, versions: Iterable[PriceBookVersion] = ()) -> None:
        self._books: dict[int, PriceBook] = {}
        for version in versions:  # of two with one number the first holds
            if version.version not in self._books:
                self._books[version.version] = PriceBook(version)
        self._none = PriceBook.empty()

    def at(self, window_start_ns: int, version: int | None = None) -> PriceBook:
        """The book for a window. ``version`` pins one; 0 is the empty book. Raises Refused where the
        pinned version is not known."""
        if version is not None:
            return self._pinned(version)
        active = [number for number, book in self._books.items() if book.active_from_ns <= window_start_ns]
        return self._books[max(active)] if active else self._none

    def _pinned(self, version: int) -> PriceBook:
        if version == 0:
            return self._none
        if version not in self._books:
            raise Refused(f"version {version} of the prices is not known; known are {sorted(self._books)}")
        return self._books[version]

    @property
    def active_from_ns(self) -> list[int]:
        """The instants from which versions hold, in no order."""
        return [book.active_from_ns for book in self._books.values()]

    @property
    def last_version(self) -> int:
        """Number of the newest version, 0 without any."""
        return max(self._books, default=0)


class Teams:
    """Every version of the team map; as Prices."""

    def __init__(self, versions: Iterable[TeamMapVersion] = ()) -> None:
        self._maps: dict[int, TeamMap] = {}
        for version in versions:  # of two with one number the first holds
            if version.version not in self._maps:
                self._maps[version.version] = TeamMap(version)
        self._none = TeamMap.empty()

    def at(self, window_start_ns: int, version: int | None = None) -> TeamMap:
        """The team map for a window; as Prices.at."""
        if version is not None:
            return self._pinned(version)
        active = [number for number, teams in self._maps.items() if teams.active_from_ns <= window_start_ns]
        return self._maps[max(active)] if active else self._none

    def _pinned(self, version: int) -> TeamMap:
        if version == 0:
            return self._none
        if version not in self._maps:
            raise Refused(f"version {version} of the teams is not known; known are {sorted(self._maps)}")
        return self._maps[version]

    @property
    def active_from_ns(self) -> list[int]:
        """The instants from which versions hold, in no order."""
        return [teams.active_from_ns for teams in self._maps.values()]

    @property
    def last_version(self) -> int:
        """Number of the newest version, 0 without any."""
        return max(self._maps, default=0)
