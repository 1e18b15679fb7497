"""The source of holders on a Kubernetes node, against a real kubelet socket and a real API over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.holders import choose, podresources
from gpuledger.agent.holders.choose import HolderChoice, HoldersFrom, open_holders
from gpuledger.agent.holders.claim_status import CLAIM
from gpuledger.agent.holders.kubernetes import ApiPods, KubeletPods, KubernetesHolders, alive_uids
from gpuledger.agent.holders.podresources import PodResources
from gpuledger.contract.clock import ManualClock, SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import NodeLayout
from gpuledger.kube import KubeClient
from gpuledger.kube.reflector import KEEP_GONE_NS
from tests.support.agent import POD, POD_PATH, devices, uuid
from tests.support.kube_api import NODES, PODS, SLICES, KubeApi, claim, node, pod
from tests.support.kubelet import Kubelet
from tests.support.waiting import PATIENCE_S, until

U1 = "11111111-0000-0000-0000-000000000000"
HAMI = "hami-core-gpu.project-hami.io"
S = 1_000_000_000


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine, who answers has answered in time."""
    monkeypatch.setattr(podresources, "CALL_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(choose, "FIRST_ANSWER_S", PATIENCE_S)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    server = Kubelet(tmp_path / "kubelet.sock")
    yield server
    server.down()


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi(paths=(PODS, NODES, SLICES, "/pods"))
    yield server
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10**18)


@pytest.fixture
def source(kubelet: Kubelet, api: KubeApi, clock: ManualClock) -> Iterator[KubernetesHolders]:
    """Its watches run; it looks when the test says so."""
    pods = ApiPods(KubeClient(api.access), "node-a", clock)
    made = KubernetesHolders(PodResources(kubelet.socket), pods, clock, lambda uids: uids)
    pods.start()
    yield made
    made.stop()


def held(source: KubernetesHolders) -> list[tuple[str, int]] | None:
    source.look()
    found = source.read()
    return None if found is None else [(h.consumer, h.device) for h in found.records(devices())]


def test_holders_follow_the_kubelet_and_the_api(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi
) -> None:
    api.put(PODS, pod(U1))
    kubelet.give("train-0", {"nvidia.com/gpu": [uuid(1)]})
    until(lambda: held(source) == [(U1, 1)])
    assert source.problem == ""
    kubelet.release("train-0")
    assert held(source) == []


def test_a_job_that_completed_holds_nothing_though_the_kubelet_lists_it(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi
) -> None:
    api.put(PODS, pod(U1))
    kubelet.give("train-0", {"nvidia.com/gpu": [uuid(1)]})
    until(lambda: held(source) == [(U1, 1)])
    api.put(PODS, pod(U1, phase="Succeeded"))
    until(lambda: held(source) == [])


def test_holders_are_not_known_before_both_have_answered(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi
) -> None:
    kubelet.down()
    until(lambda: api.count(PODS, watch=True))
    assert held(source) is None
    assert "kubelet.sock" in source.problem
    kubelet.up()
    until(lambda: held(source) == [])


def test_while_the_kubelet_and_the_api_are_away_the_last_good_answer_stays(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi
) -> None:
    api.put(PODS, pod(U1))
    kubelet.give("train-0", {"nvidia.com/gpu": [uuid(1)]})
    until(lambda: held(source) == [(U1, 1)])
    kubelet.down()
    api.down()
    until(lambda: held(source) == [(U1, 1)] and PODS in source.problem)
    assert "kubelet.sock" in source.problem
    api.up()


def test_a_pod_that_only_the_kubelet_knows_is_a_problem_that_is_said(
    source: KubernetesHolders, kubelet: Kubelet
) -> None:
    kubelet.give("train-0", {"nvidia.com/gpu": [uuid(1)]})
    until(lambda: held(source) == [])
    assert source.problem == "pod research/train-0 has devices and nobody knows its uid"


def test_what_can_be_given_out_is_asked_anew_from_time_to_time(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi, clock: ManualClock
) -> None:
    until(lambda: held(source) == [])
    kubelet.offer("nvidia.com/gpu", [f"{uuid(0)}::{n}" for n in range(4)])
    clock.advance(10 * S)
    source.look()
    found = source.read()
    assert found is not None
    assert found.devices(devices())[0].replicas == 4


def test_slices_of_a_cluster_before_1_34_are_known(kubelet: Kubelet, clock: ManualClock) -> None:
    beta = SLICES.replace("/v1/", "/v1beta1/")
    api = KubeApi(paths=(PODS, NODES, beta))
    pods = ApiPods(KubeClient(api.access), "node-a", clock)
    source = KubernetesHolders(PodResources(kubelet.socket), pods, clock, lambda uids: uids)
    pods.start()
    try:
        api.put(PODS, pod(U1))
        device = {"name": "gpu-9", "basic": {"attributes": {"uuid": {"string": uuid(1)}}}}
        where = {"nodeName": "node-a", "driver": "gpu.nvidia.com", "pool": {"name": "node-a"}}
        api.put(beta, {"metadata": {"uid": "s", "name": "s"}, "spec": {**where, "devices": [device]}})
        kubelet.claim("train-0", "one", "gpu-9")
        until(lambda: held(source) == [(U1, 1)])
    finally:
        source.stop()
        api.close()


def test_the_node_s_labels_and_its_slices_are_known(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi
) -> None:
    api.put(PODS, pod(U1))
    api.put(NODES, node(labels={"node.kubernetes.io/instance-type": "p5.48xlarge"}))
    api.put(NODES, node("node-b", "other", labels={"node.kubernetes.io/instance-type": "g6.xlarge"}))
    device = {"name": "gpu-9", "attributes": {"uuid": {"string": uuid(1)}}}
    spec = {"nodeName": "node-a", "driver": "gpu.nvidia.com", "pool": {"name": "node-a"}, "devices": [device]}
    api.put(SLICES, {"metadata": {"uid": "s", "name": "s"}, "spec": spec})
    kubelet.claim("train-0", "one", "gpu-9")
    until(lambda: held(source) == [(U1, 1)])
    until(lambda: told(source) == ("p5.48xlarge", "i-0abc"))


def test_how_much_of_a_device_a_share_has_is_read_of_its_claim(
    source: KubernetesHolders, kubelet: Kubelet, api: KubeApi
) -> None:
    api.put(PODS, pod(U1))
    device = {"name": "gpu-9", "attributes": {"uuid": {"string": uuid(1)}}}
    device |= {"capacity": {"cores": {"value": "100"}, "memory": {"value": "80Gi"}}}
    spec = {"nodeName": "node-a", "driver": HAMI, "pool": {"name": "node-a"}, "devices": [device]}
    api.put(SLICES, {"metadata": {"uid": "s", "name": "s"}, "spec": spec})
    consumed = {"cores": "30", "memory": "4Gi"}
    api.single[CLAIM.format("v1", "research", "one")] = claim("one", "gpu-9", "share", HAMI, consumed)
    kubelet.claim("train-0", "one", "gpu-9", HAMI, "share")
    until(lambda: held(source) == [(U1, 1)])
    found = source.read()
    assert found is not None
    (record,) = found.records(devices())
    assert 10 * record.share_numerator == 3 * record.share_denominator > 0
    assert record.memory_limit_bytes == 4 << 30
    assert source.problem == ""
    kubelet.claim("train-1", "two", "gpu-9", HAMI, "other")
    api.put(PODS, pod("u2", "train-1"))
    api.refuse = 403
    until(lambda: held(source) is not None and "resourceclaims/two: HTTP 403" in source.problem)


def told(source: KubernetesHolders) -> tuple[str, str]:
    """What the cluster says of the node's type and instance."""
    source.look()
    found = source.read()
    layout = found.layout(NodeLayout()) if found else NodeLayout()
    return layout.instance_type, layout.instance_id


def test_the_kubelet_s_own_list_of_pods_will_do(kubelet: Kubelet, api: KubeApi, clock: ManualClock) -> None:
    api.put("/pods", pod(U1))
    kubelet.give("train-0", {"nvidia.com/gpu": [uuid(1)]})
    source = KubernetesHolders(
        PodResources(kubelet.socket), KubeletPods(KubeClient(api.access), clock), clock, lambda uids: uids
    )
    assert held(source) == [(U1, 1)]
    api.delete("/pods", U1)
    clock.advance(2 * S)
    assert held(source) == [(U1, 1)], "deleted by force: the kubelet still lists its devices"
    api.refuse = 503
    clock.advance(KEEP_GONE_NS)
    assert held(source) == [(U1, 1)]
    assert "HTTP 503" in source.problem
    api.refuse = 0
    clock.advance(2 * S)
    assert held(source) == []
    source.stop()


def test_an_agent_with_these_options_knows_its_holders_at_once(kubelet: Kubelet, api: KubeApi) -> None:
    api.put(PODS, pod(U1))
    kubelet.give("train-0", {"nvidia.com/gpu": [uuid(1)]})
    choice = HolderChoice(
        HoldersFrom.KUBERNETES, kubelet_socket=kubelet.socket, api_url=api.access.url, kube_node="node-a"
    )
    with contextlib.ExitStack() as stack:
        found = open_holders(stack, choice, "gpu-node-1", SystemClock()).read()
    assert found is not None
    assert [h.consumer for h in found.records(devices())] == [U1]


def test_holders_from_a_file_need_one() -> None:
    with contextlib.ExitStack() as stack, pytest.raises(ConfigError, match="--holders FILE"):
        open_holders(stack, HolderChoice(HoldersFrom.FILE), "n", SystemClock())


def test_a_pod_is_alive_while_its_cgroup_is_there(tmp_path: Path) -> None:
    (tmp_path / POD_PATH[1:]).mkdir(parents=True)
    (tmp_path / "system.slice/sshd.service").mkdir(parents=True)
    assert set(alive_uids(str(tmp_path))([POD, U1])) == {POD}
