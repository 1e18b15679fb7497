"""What is to be replayed: plain values that travel to every process that takes part."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gpuledger import __version__
from gpuledger.archive.log import ArchiveLog
from gpuledger.archive.manifest import File
from gpuledger.archive.schemas import ArchivedSchemas
from gpuledger.archive.store import open_store
from gpuledger.bus import BusAccess, PartitionReader, SchemaRegistry
from gpuledger.bus.log import Log, Schemas
from gpuledger.contract.records import Generation, PriceBookVersion, TeamMapVersion
from gpuledger.contract.revision import CORE_VERSION
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.settings import ProcessorSettings


def version() -> str:
    """Of what computes: no other version goes on with a replay that this one began."""
    return f"{__version__}, version {CORE_VERSION} of the charging rules"


@dataclass(frozen=True)
class Request:
    """Windows of ``clusters`` (empty: all) that start in [from, to), Unix ns, both starts of minutes.

    The records come from the archive at ``archive``, else from Kafka. ``prices``, ``teams`` and ``policy``
    stand in for what was recorded, for the question what would have been; ``generations`` are announced, or
    about to be.
    """

    from_ns: int
    to_ns: int
    settings: ProcessorSettings
    bus: BusAccess
    clusters: frozenset[str] = frozenset()
    archive: str | None = None
    prices: PriceBookVersion | None = None
    teams: TeamMapVersion | None = None
    policy: dict[str, str] = field(default_factory=dict)
    generations: tuple[Generation, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The same for two requests that compute the same; where Kafka is and who asks does not count."""
        rules = self.settings.rules()
        asked = (
            version(), self.from_ns, self.to_ns, sorted(self.clusters), self.archive, self.prices, self.teams,
            sorted(self.policy.items()), self.generations, rules,
            self.settings.window_s, sorted(self.settings.cluster_window_s.items()),
        )  # fmt: skip
        return hashlib.sha256(repr(asked).encode()).hexdigest()

    def wants(self, cluster: str) -> bool:
        """Whether a cluster takes part."""
        return not self.clusters or cluster in self.clusters


class Source:
    """The log and the schemas of a request, opened; use it in a ``with``. Owned by one thread."""

    log: Log
    again: Log
    """The same, to be read while ``log`` is: of records that were read before."""
    schemas: Schemas

    def __init__(self, request: Request) -> None:
        self._opened: list[PartitionReader | SchemaRegistry] = []
        if request.archive is not None:
            store = open_store(request.archive)
            self.log = self.again = ArchiveLog(store, lambda file: _is_wanted(request, file))
            self.schemas = ArchivedSchemas(store)
        else:
            reader, again = (PartitionReader(request.bus, "gpuledger-replay") for _ in range(2))
            registry = SchemaRegistry(request.bus)
            self.log, self.again, self.schemas = reader, again, registry
            self._opened = [reader, again, registry]

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in self._opened:
            opened.close()


def _is_wanted(request: Request, file: File) -> bool:
    """Whether a file may hold what a replay needs: nothing of another cluster, no window behind its end.

    Windows before the range count: an empty one speaks from the nearest keyframe before it.
    """
    if not file.name.startswith(f"data/{TELEMETRY}/"):
        return True
    if file.windows_from_ns is not None and file.windows_from_ns >= request.to_ns:
        return False
    return request.wants(file.cluster)
