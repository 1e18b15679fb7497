"""An agent on a Kubernetes node, from the kubelet's socket and the API to gpu.telemetry on a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.holders.disruption import BUDGETS
from gpuledger.agent.simulated import SimulatedNode
from gpuledger.bus import BusSettings, apply_topics
from gpuledger.contract.records import Holdings, Keeper
from gpuledger.localstack import Kafka, Registry
from tests.support.kafka import STACK_DIRECTORY
from tests.support.kube_api import NODES, PODS, KubeApi, node, pod
from tests.support.kubelet import Kubelet
from tests.support.telemetry import agent_command, lifetimes, running_agent, telemetry
from tests.support.waiting import until

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
LABELS = {
    "node.kubernetes.io/instance-type": "p5.48xlarge",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("kafka"), STACK_DIRECTORY) as server:
        apply_topics(BusSettings.load(kafka_bootstrap=server.bootstrap), partitions=3, replication=1)
        yield server


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi()
    yield server
    server.close()


def test_holders_names_and_labels_reach_the_keyframe_and_a_late_name_amends(
    broker: Kafka, registry: Registry, api: KubeApi, tmp_path: Path
) -> None:
    simulated = SimulatedNode(1)
    pods = [(actor.pod, actor.device) for actor in simulated.actors if actor.pod is not None]
    late = pods[-1][0]
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    shared = simulated.devices[1].uuid
    kubelet.offer("nvidia.com/gpu", [simulated.devices[0].uuid])
    kubelet.offer("nvidia.com/gpu.shared", [f"{shared}::{slot}" for slot in range(3)])
    api.put(NODES, node("node-a", labels=LABELS))
    for slot, (known, device) in enumerate(pods):
        id_ = simulated.devices[device].uuid + (f"::{slot - 1}" if device == 1 else "")
        kubelet.give(known.name, {"nvidia.com/gpu": [id_]}, known.namespace)
        if known is not late:
            api.put(PODS, pod(known.uid, known.name, known.namespace))
    command = agent_command(
        broker,
        registry,
        "late-name",
        tmp_path / "state",
        [
            *("--source", "simulated", "--window-s", "2", "--no-lifetime"),
            *("--holders-from", "kubernetes", "--kube-api", api.access.url, "--kube-node", "node-a"),
            *("--kubelet-socket", str(kubelet.socket)),
        ],
    )

    def holdings() -> list[Holdings]:
        return [told.body for told in telemetry(broker, "late-name") if isinstance(told.body, Holdings)]

    def knows_the_others(state: Holdings) -> bool:
        """A node whose API answers late begins without names, and one whose processes call late without
        those."""
        named = {known.uid for known, _ in pods} - {late.uid}
        holds = state.keyframe and {holder.consumer for holder in state.holders} == named
        return holds and late.uid in {process.consumer for process in state.processes}

    def amendments_of_late() -> list[Holdings]:
        amendments = (state for state in holdings() if state.header.amendment)
        return [one for one in amendments if late.uid in {process.consumer for process in one.processes}]

    with running_agent(command, tmp_path / "agent.log") as agent:
        until(lambda: any(map(knows_the_others, holdings())))
        api.put(PODS, pod(late.uid, late.name, late.namespace))
        until(lambda: amendments_of_late())
        until(lambda: any(late.uid in {h.consumer for h in state.holders} for state in holdings()))
        agent.stop()
    kubelet.down()
    keyframe = next(filter(knows_the_others, holdings()))
    assert keyframe.layout.instance_type == "p5.48xlarge"
    assert [(d.sharing, d.replicas) for d in keyframe.layout.devices[:2]] == [
        ("exclusive", 1),
        ("time_slicing", 3),
    ]
    assert {process.consumer for process in keyframe.processes if process.pending} == {late.uid}
    for amendment in amendments_of_late():
        assert {process.consumer for process in amendment.processes} == {late.uid}
        assert [(known.name, known.namespace) for known in amendment.pods] == [(late.name, late.namespace)]
    told = telemetry(broker, "late-name")
    assert [record.headers.id.sequence for record in told] == list(range(len(told)))
    assert lifetimes(broker, "late-name") == []


def test_pods_without_gpus_on_a_node_that_nobody_holds_are_in_the_keyframe(
    broker: Kafka, registry: Registry, api: KubeApi, tmp_path: Path
) -> None:
    api.put(NODES, node("node-a", labels=LABELS))
    api.put(PODS, pod("shell", "shell", "ops", metadata={"annotations": {DO_NOT_DISRUPT: "true"}}))
    api.single[BUDGETS.format("ops")] = {
        "items": [{"spec": {"selector": {}}, "status": {"disruptionsAllowed": 0}}],
    }
    daemons = [{"kind": "DaemonSet", "name": "logs", "controller": True}]
    api.put(PODS, pod("logs", "logs", "ops", metadata={"ownerReferences": daemons}))
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    command = agent_command(
        broker,
        registry,
        "kept",
        tmp_path / "state",
        [
            *("--source", "simulated", "--window-s", "2", "--no-lifetime"),
            *("--holders-from", "kubernetes", "--kube-api", api.access.url, "--kube-node", "node-a"),
            *("--kubelet-socket", str(kubelet.socket)),
        ],
    )

    def keyframes() -> list[Holdings]:
        told = (record.body for record in telemetry(broker, "kept"))
        return [one for one in told if isinstance(one, Holdings) and one.keyframe]

    with running_agent(command, tmp_path / "agent.log") as agent:
        until(lambda: any(one.keepers_count for one in keyframes()))
        agent.stop()
    kubelet.down()
    kept = next(one for one in keyframes() if one.keepers_count)
    assert (kept.holders, kept.keepers_count) == ([], 1)
    why = ["do_not_disrupt", "no_controller", "disruption_budget"]
    assert kept.keepers == [Keeper("shell", "ops", "shell", "", why)]
