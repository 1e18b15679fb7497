"""Holders on a Kubernetes node: the kubelet says what is given out, the cluster says who the pods are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from typing import Protocol

from gpuledger.agent.holders.claim_status import Allotments, ClaimStatuses
from gpuledger.agent.holders.claims import SliceDevice, slice_devices
from gpuledger.agent.holders.disruption import DisruptionBudgets
from gpuledger.agent.holders.join import AliveUids, Seen, join
from gpuledger.agent.holders.podresources import Allocation, ClaimDevice, PodResources
from gpuledger.agent.holders.pods import PodFacts, pod_facts
from gpuledger.agent.holders.source import Holders
from gpuledger.agent.identity import pod_from_cgroup
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.contract.records import NodeLayout, Pod
from gpuledger.kube import Gone, KubeClient, Reflector, layout_of_node
from gpuledger.kube.reflector import KEEP_GONE_NS
from gpuledger.logs import EventLog

POLL_S = 1.0  # a holder that changes is seen within a second
ALLOCATABLE_NS = 10 * NS_PER_S  # what can be given out changes with the device plugin's configuration
KUBELET_PODS_NS = 2 * NS_PER_S  # the kubelet's list has no watch; it answers from memory
STOP_S = 7.0  # above a call's own limit
SLICES = "/apis/resource.k8s.io/{}/resourceslices"
OLDER = ("v1beta2", "v1beta1")  # v1 came with Kubernetes 1.34, the others with 1.33 and 1.32
MAX_CGROUP_DEPTH = 8  # kubelets nest pods three deep, nodes in containers some more

_log = EventLog(__name__)


class PodSource(Protocol):
    """Who the pods of this node are. Used by one thread."""

    def start(self) -> None:
        """Begin to learn."""

    def refresh(self) -> None:
        """Called before each look; returns soon."""

    def pods(self) -> tuple[list[PodFacts], list[PodFacts]] | None:
        """(pods that are there, pods that went in the last minutes); None while nothing is known yet."""

    def node(self) -> NodeLayout | None:
        """What the node's labels say; None where that is not known."""

    def slices(self) -> dict[tuple[str, str, str], SliceDevice]:
        """The node's ResourceSlices."""

    def allotments(self, devices: Collection[ClaimDevice]) -> Allotments:
        """What the statuses of their claims say of these, as far as that is known."""

    def blocked(self, pods: Collection[Pod]) -> Collection[str]:
        """The uids of these pods that a PodDisruptionBudget keeps where they are, as far as that is known."""

    @property
    def problem(self) -> str:
        """Why it learns nothing now; empty while it does."""

    def stop(self) -> None:
        """Learn no more, and close what it holds."""


class ApiPods:
    """A `PodSource` over the API server: one watch of this node's pods, one of the node itself, and one of
    its ResourceSlices where the cluster has those. Owns the client."""

    def __init__(self, client: KubeClient, node: str, clock: Clock) -> None:
        self._client = client
        where = {"fieldSelector": f"spec.nodeName={node}"}
        itself = {"fieldSelector": f"metadata.name={node}"}
        self._pods = Reflector(client, "/api/v1/pods", pod_facts, clock, where)
        self._nodes = Reflector(client, "/api/v1/nodes", layout_of_node, clock, itself)
        self._slices = Reflector(
            client, SLICES.format("v1"), slice_devices, clock, where, [SLICES.format(v) for v in OLDER]
        )
        self._claims = ClaimStatuses(client, clock)
        self._budgets = DisruptionBudgets(client, clock)

    def start(self) -> None:
        """See PodSource.start."""
        for reflector in (self._pods, self._nodes, self._slices):
            reflector.start()

    def refresh(self) -> None:
        """The watches keep themselves."""

    def pods(self) -> tuple[list[PodFacts], list[PodFacts]] | None:
        """See PodSource.pods."""
        found = self._pods.objects()
        if found is None:
            return None
        return list(found.values()), [gone.value for gone in self._pods.gone().values()]

    def node(self) -> NodeLayout | None:
        """See PodSource.node."""
        return next(iter((self._nodes.objects() or {}).values()), None)

    def slices(self) -> dict[tuple[str, str, str], SliceDevice]:
        """See PodSource.slices. A cluster without them answers 404, which is no problem."""
        return {
            key: device for part in (self._slices.objects() or {}).values() for key, device in part.items()
        }

    def allotments(self, devices: Collection[ClaimDevice]) -> Allotments:
        """See PodSource.allotments."""
        return self._claims.of(devices)

    def blocked(self, pods: Collection[Pod]) -> Collection[str]:
        """See PodSource.blocked."""
        return self._budgets.blocked(pods)

    @property
    def problem(self) -> str:
        """See PodSource.problem."""
        return self._pods.problem or self._nodes.problem or self._claims.problem

    def stop(self) -> None:
        """See PodSource.stop."""
        for reflector in (self._pods, self._nodes, self._slices):
            reflector.stop()
        self._client.close()


class KubeletPods:
    """A `PodSource` over the kubelet's own list of pods, for clusters whose API server the agent must not
    ask. It says nothing of the node's labels. Owns the client."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._due_ns = 0
        self._pods: dict[str, PodFacts] | None = None
        self._gone: dict[str, Gone[PodFacts]] = {}
        self._problem = ""

    def start(self) -> None:
        """There is nothing to begin."""

    def refresh(self) -> None:
        """See PodSource.refresh."""
        now = self._clock.boot_ns()
        if now < self._due_ns:
            return
        self._due_ns = now + KUBELET_PODS_NS
        try:
            answer = self._client.get("/pods")
        except Unavailable as error:
            self._problem = str(error)
            return
        self._problem = ""
        facts = [pod_facts(item) for item in answer.get("items") or ()]
        found = {one.pod.uid: one for one in facts if one is not None}
        self._gone = {
            uid: gone
            for uid, gone in self._gone.items()
            if gone.noticed_ns > now - KEEP_GONE_NS and uid not in found
        }
        for uid, before in (self._pods or {}).items():
            if uid not in found:
                self._gone[uid] = Gone(before, now)
        self._pods = found

    def pods(self) -> tuple[list[PodFacts], list[PodFacts]] | None:
        """See PodSource.pods."""
        if self._pods is None:
            return None
        return list(self._pods.values()), [gone.value for gone in self._gone.values()]

    def node(self) -> NodeLayout | None:
        """The kubelet's list does not say it."""
        return None

    def slices(self) -> dict[tuple[str, str, str], SliceDevice]:
        """The kubelet's list does not say it."""
        return {}

    def allotments(self, devices: Collection[ClaimDevice]) -> Allotments:
        """The kubelet does not say it."""
        return {}

    def blocked(self, pods: Collection[Pod]) -> Collection[str]:
        """The kubelet does not know it."""
        return ()

    @property
    def problem(self) -> str:
        """See PodSource.problem."""
        return self._problem

    def stop(self) -> None:
        """See PodSource.stop."""
        self._client.close()


class KubernetesHolders:
    """A `HolderSource` over the kubelet's PodResources and a `PodSource`, which it owns.

    A thread looks once a second; `read` returns what it last found. While the kubelet or the API server is
    away the last good answer stays; until both have answered once, holders are not known.
    """

    def __init__(self, kubelet: PodResources, source: PodSource, clock: Clock, alive: AliveUids) -> None:
        self._kubelet = kubelet
        self._source = source
        self._clock = clock
        self._alive = alive
        self._holders: Holders | None = None
        self._problem = "not asked yet"
        self._allocations: tuple[Allocation, ...] | None = None
        self._allocatable: tuple[tuple[str, str], ...] | None = None
        self._allocatable_due_ns = 0
        self._stop = threading.Event()
        self._looked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holders", daemon=True)

    @property
    def problem(self) -> str:
        """See HolderSource.problem."""
        return self._problem

    def read(self) -> Holders | None:
        """See HolderSource.read."""
        return self._holders

    def start(self, wait_s: float = 0.0) -> None:
        """Begin to look; return when holders are known, or after ``wait_s``."""
        self._source.start()
        self._thread.start()
        self._looked.wait(wait_s)

    def stop(self) -> None:
        """End the thread and close what it used."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._source.stop()

    def look(self) -> None:
        """One look; what fails is in `problem`."""
        problems = []
        self._source.refresh()
        try:
            self._ask_kubelet()
        except Unavailable as error:
            problems.append(str(error))
        pods = self._source.pods()
        if pods is not None and self._allocations is not None:
            keeping = [] if self._allocations else [one.pod for one in pods[0] if one.keeper is not None]
            claimed = {device for allocation in self._allocations for device in allocation.claims}
            seen = Seen(
                allocations=self._allocations,
                allocatable=self._allocatable,
                pods=pods[0],
                gone=pods[1],
                node=self._source.node(),
                slices=self._source.slices(),
                allotments=self._source.allotments(claimed),
                blocked=self._source.blocked(keeping),
            )
            holders, nameless = join(seen, self._alive)
            problems += [f"pod {name} has devices and nobody knows its uid" for name in nameless]
            self._holders = holders
            self._looked.set()
        if self._source.problem:
            problems.append(self._source.problem)
        self._problem = "; ".join(problems)

    def _ask_kubelet(self) -> None:
        self._allocations = self._kubelet.list()
        now = self._clock.boot_ns()
        if now >= self._allocatable_due_ns:
            self._allocatable = self._kubelet.allocatable()
            self._allocatable_due_ns = now + ALLOCATABLE_NS

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except Exception as error:
                # one answer that makes no sense must not end all later ones: the last good one stays
                self._problem = repr(error)
                _log.exception("holders_failed")
            self._stop.wait(POLL_S)


def alive_uids(mount: str) -> Callable[[Collection[str]], Collection[str]]:
    """`AliveUids` by the cgroup tree below ``mount``."""

    def alive(uids: Collection[str]) -> Collection[str]:
        wanted, found = set(uids), set()
        for directory, names, _ in os.walk(mount):
            path = "/" + directory[len(mount) :].strip("/")
            pod = pod_from_cgroup(path)
            if pod is not None:
                found.add(pod.pod_uid)
                names.clear()
            elif path.count("/") >= MAX_CGROUP_DEPTH or found >= wanted:
                names.clear()
        return found & wanted

    return alive
