"""Where lives come from: the cluster's objects, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import NodeLifetime
from gpuledger.inventory import file, lives
from gpuledger.inventory.lives import Cluster, Stated
from gpuledger.inventory.objects import claim_facts, node_facts
from gpuledger.kube import KubeClient, Reflector

NODES = "/api/v1/nodes"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


class LifeSource(Protocol):
    """What a cluster's nodes are doing. Used by one thread, except that it may learn in its own."""

    def start(self) -> None:
        """Begin to learn."""

    def statements(self, stated: Stated, now_ns: int) -> list[NodeLifetime] | None:
        """What is to be said beyond what was stated; None while nothing is known."""

    @property
    def problem(self) -> str:
        """Why it learns nothing now; empty while it does."""

    def stop(self) -> None:
        """Learn no more, and close what it holds."""


class ClusterSource:
    """The API server's Node and NodeClaim objects. Owns the client."""

    def __init__(self, client: KubeClient, cluster: str, length_ns: int, clock: Clock) -> None:
        self._client = client
        self._cluster = cluster
        self._length_ns = length_ns
        self._nodes = Reflector(client, NODES, node_facts, clock)
        self._claims = Reflector(client, CLAIMS, claim_facts, clock)

    def start(self) -> None:
        """See LifeSource.start."""
        self._nodes.start()
        self._claims.start()

    def statements(self, stated: Stated, now_ns: int) -> list[NodeLifetime] | None:
        """See LifeSource.statements. Nothing ends before both kinds of objects are known; a cluster without
        Karpenter has no claims."""
        nodes = self._nodes.objects()
        claims = self._claims.objects()
        if claims is None and self._claims.is_absent:
            claims = {}  # once there were some, a 404 is an API server that has just started
        if nodes is None or claims is None:
            return None
        seen = Cluster(
            nodes=list(nodes.values()),
            claims=list(claims.values()),
            node_gone_ns={gone.value.name: gone.noticed_ns for gone in self._nodes.gone().values()},
            claim_gone_ns={gone.value.provider_id: gone.noticed_ns for gone in self._claims.gone().values()},
        )
        return lives.statements(self._cluster, seen, stated, self._length_ns, now_ns)

    @property
    def problem(self) -> str:
        """See LifeSource.problem."""
        return self._nodes.problem or ("" if self._claims.is_absent else self._claims.problem)

    def stop(self) -> None:
        """See LifeSource.stop."""
        self._nodes.stop()
        self._claims.stop()
        self._client.close()


class FileSource:
    """A file, read anew each time: it is small. One that breaks later states nothing until it is mended."""

    def __init__(self, path: Path, cluster: str, length_ns: int) -> None:
        self._path = path
        self._cluster = cluster
        self._length_ns = length_ns
        self._problem = ""

    def start(self) -> None:
        """Raises ConfigError where the file is not there or wrong now: whoever starts this wants to know."""
        file.read_lives(self._path, self._cluster, self._length_ns)

    def statements(self, stated: Stated, now_ns: int) -> list[NodeLifetime] | None:
        """See LifeSource.statements."""
        try:
            wanted = file.read_lives(self._path, self._cluster, self._length_ns)
        except ConfigError as error:
            self._problem = str(error)
            return None
        self._problem = ""
        return file.statements(wanted, stated, now_ns)

    @property
    def problem(self) -> str:
        """See LifeSource.problem."""
        return self._problem

    def stop(self) -> None:
        """There is nothing to close."""
