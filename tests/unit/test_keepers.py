"""Pods without GPUs that keep a node alive: which they are, why, and their way into the charges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.disruption import BUDGETS, DisruptionBudgets
from gpuledger.agent.holders.join import Seen, join
from gpuledger.agent.holders.keepers import KEEPERS_LISTED
from gpuledger.agent.holders.pods import pod_facts
from gpuledger.agent.holders.source import HeldDevice, Holders
from gpuledger.agent.state import View
from gpuledger.attribution import Charges, charge_window
from gpuledger.contract.clock import ManualClock
from gpuledger.contract.records import Holder, Holdings, Keeper, NodeLayout, Pod, decode, encode
from gpuledger.kube import KubeClient
from gpuledger.pricing import Teams
from tests.support.agent import Bench, uuid
from tests.support.charging import Calls, S, gpu, prices, row_of, state, window
from tests.support.kube_api import KubeApi, pod

KARPENTER = {"karpenter.sh/do-not-disrupt": "true"}
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LAYOUT = NodeLayout(devices=[gpu()])


def owner(kind: str, name: str = "web") -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def keeper(item: dict[str, Any]) -> Keeper | None:
    facts = pod_facts(item)
    assert facts is not None
    return facts.keeper


def why(metadata: dict[str, Any], volumes: list[dict[str, Any]] | None = None, **more: Any) -> list[str]:
    found = keeper(pod("u", metadata=owner("StatefulSet") | metadata, spec={"volumes": volumes}, **more))
    assert found is not None
    return found.why


def holders_of(*items: dict[str, Any]) -> Holders:
    facts = [one for one in map(pod_facts, items) if one is not None]
    return join(Seen(allocations=(), pods=facts), lambda uids: uids)[0]


def told(holders: Holders) -> Holdings:
    """The second window's keyframe: what the bench's process began in the first is there."""
    made = Bench()
    made.state.change(View(holders))
    made.advance(12 * S)
    (keyframe,) = [one for one in made.advance(22 * S) if isinstance(one, Holdings)]
    return keyframe


NONE_ALLOWED = {"disruptionsAllowed": 0}
OF_ALL = {"spec": {"selector": {}}, "status": NONE_ALLOWED}
IN_SHOP = BUDGETS.format("shop")


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with closing(KubeApi()) as served:
        yield served


@pytest.fixture
def client(api: KubeApi) -> Iterator[KubeClient]:
    with KubeClient(api.access) as made:
        yield made


def pods_of(**labels: dict[str, str]) -> list[Pod]:
    return [Pod(uid, "shop", uid, "Running", said) for uid, said in labels.items()]


@pytest.mark.parametrize(
    ("selector", "whom"),
    [
        ({}, {"web", "job"}),
        (None, set()),
        ({"matchLabels": {"app": "web"}}, {"web"}),
        ({"matchLabels": {"app": "web", "tier": "front"}}, set()),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}, {"web"}),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, {"job"}),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, {"web"}),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {"job"}),
        ({"matchExpressions": [{"key": "app", "operator": "Resembles"}]}, set()),
    ],
)
def test_a_budget_that_allows_no_disruption_keeps_the_pods_that_it_selects(
    api: KubeApi, client: KubeClient, selector: dict[str, Any] | None, whom: set[str]
) -> None:
    api.single[IN_SHOP] = {"items": [{"spec": {"selector": selector}, "status": NONE_ALLOWED}]}
    assert DisruptionBudgets(client, ManualClock()).blocked(pods_of(web={"app": "web"}, job={})) == whom


@pytest.mark.parametrize(
    "item",
    [{"spec": {"selector": {}}, "status": {"disruptionsAllowed": 1}}, {"spec": {"selector": {}}}, 7, {}],
)
def test_a_budget_that_allows_one_or_says_nothing_keeps_nobody(
    api: KubeApi, client: KubeClient, item: Any
) -> None:
    api.single[IN_SHOP] = {"items": [item]}
    assert not DisruptionBudgets(client, ManualClock()).blocked(pods_of(web={}))
    assert len(api.requests) == 1


def test_budgets_are_asked_for_every_ten_minutes_and_stay_while_the_server_is_away(
    api: KubeApi, client: KubeClient
) -> None:
    clock, pods = ManualClock(), pods_of(web={})
    api.single[IN_SHOP] = {"items": [OF_ALL]}
    budgets = DisruptionBudgets(client, clock)
    for _ in range(3):
        assert budgets.blocked(pods) == {"web"}
        clock.advance(200 * S)
    assert api.requests == [f"{IN_SHOP}?"]
    api.down()
    assert budgets.blocked(pods) == {"web"}
    api.up()
    api.refuse = 403
    clock.advance(600 * S)
    assert not budgets.blocked(pods), "who may not read them knows of none"
    assert not budgets.blocked([])
    assert api.requests == [f"{IN_SHOP}?"] * 2


def test_a_pod_without_a_gpu_is_named_with_its_owner() -> None:
    found = keeper(pod("u", "web-0", "shop", metadata=owner("StatefulSet")))
    assert found == Keeper("u", "shop", "web-0", "StatefulSet/web", [])


@pytest.mark.parametrize(
    "item",
    [
        pod("u", metadata=owner("DaemonSet")),
        pod("u", phase="Succeeded"),
        pod("u", phase="Failed"),
        pod("u", metadata={"annotations": {"kubernetes.io/config.mirror": "m"}} | owner("Node")),
        pod("u", metadata={"annotations": {"kubernetes.io/config.source": "file"}}),
        pod("u", spec={"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}),
    ],
    ids=["daemon set", "succeeded", "failed", "mirror", "static", "asks for a GPU"],
)
def test_what_goes_with_its_node_or_asks_for_a_gpu_keeps_none(item: dict[str, Any]) -> None:
    assert keeper(item) is None


def test_what_stops_an_autoscaler_is_said_as_far_as_the_pod_says_it() -> None:
    assert why({}) == []
    assert why({"annotations": KARPENTER}) == ["do_not_disrupt"]
    assert why({"annotations": {"karpenter.sh/do-not-disrupt": "false"}}) == []
    assert why({"annotations": {EVICT: "false"}}) == ["not_safe_to_evict"]
    assert why({"ownerReferences": []}) == ["no_controller"]
    assert why({}, namespace="kube-system") == ["system_pod"]
    assert why({"ownerReferences": [], "annotations": {EVICT: "true"}}, namespace="kube-system") == []


def test_local_storage_stops_it_unless_it_is_memory_or_said_to_be_safe() -> None:
    volumes = [{"name": "cache", "emptyDir": {}}]
    assert why({}, volumes) == ["local_storage"]
    assert why({}, [{"name": "cache", "hostPath": {"path": "/x"}}]) == ["local_storage"]
    assert why({}, [{"name": "cache", "emptyDir": {"medium": "Memory"}}]) == []
    assert why({}, [{"name": "cache", "configMap": {"name": "x"}}]) == []
    assert why({"annotations": {f"{EVICT}-local-volumes": "cache"}}, volumes) == []


def test_the_keyframe_names_some_and_counts_all_those_with_a_reason_first() -> None:
    many = [pod(f"u{i}", f"web-{i:02}", "shop", metadata=owner("StatefulSet")) for i in range(18)]
    many.append(pod("last", "zz", "zz", metadata={"annotations": KARPENTER} | owner("Job")))
    found = told(holders_of(*many))
    assert found.keyframe
    assert (len(found.keepers), found.keepers_count) == (KEEPERS_LISTED, 19)
    assert [one.pod for one in found.keepers[:2]] == ["zz", "web-00"]
    assert decode(Holdings, encode(found)).keepers == found.keepers


def test_nobody_is_named_while_a_gpu_is_held_and_a_pod_that_uses_one_is_none() -> None:
    waiting = holders_of(pod("web"), pod("sees-all"))
    held = replace(waiting, held=(HeldDevice("train", DeviceRef(uuid=uuid(0))),))
    assert told(held).keepers_count == 0
    bench = Bench()
    using = {known.consumer for known in bench.table.all}
    assert len(using) == 1
    there = (*waiting.keepers, Keeper(*using, "ns", "intruder"))
    assert [one.uid for one in told(replace(waiting, keepers=there)).keepers] == ["sees-all", "web"]


def test_a_pod_that_comes_and_goes_cuts_no_window() -> None:
    bench = Bench()
    bench.state.change(View(holders_of(pod("web"))))
    assert not bench.state.change(View(holders_of(pod("web"), pod("more"))))
    bench.advance(12 * S)
    (keyframe,) = [one for one in bench.advance(22 * S) if isinstance(one, Holdings)]
    assert keyframe.keyframe
    assert {one.uid for one in keyframe.keepers} == {"more", "web"}


def charged(*states: Holdings) -> Charges:
    return charge_window(window(list(states), [Calls([]).batch()]), prices(), Teams())


def test_the_charges_say_who_kept_a_node_of_which_nobody_held_a_gpu() -> None:
    kept = state(LAYOUT, keepers=[Keeper("u", "shop", "web-0", "StatefulSet/web")], keepers_count=20)
    found = charged(kept)
    assert row_of(found, reason="kept_by_cpu_pods")["unallocated_ns"] == 10 * S
    assert (found.record.keepers, found.record.keepers_count) == (kept.keepers, 20)
    assert found.conservation_error_nano == 0


def test_where_a_gpu_is_held_no_pod_is_said_to_keep_the_node() -> None:
    held = state(LAYOUT, [Holder("x", 0)], keepers=[Keeper("u")], keepers_count=1)
    found = charged(held)
    assert (found.record.keepers, found.record.keepers_count) == ([], 0)
    assert row_of(found, "x").total_ns == 10 * S


def test_of_several_states_the_last_in_which_nobody_held_names_them() -> None:
    first = state(LAYOUT, keepers=[Keeper("one")], keepers_count=1)
    then = state(LAYOUT, at_s=3, sequence=1, keepers=[Keeper("two")], keepers_count=1)
    found = charged(first, then, state(LAYOUT, [Holder("x", 0)], at_s=6, sequence=2))
    assert [one.uid for one in found.record.keepers] == ["two"]
    assert row_of(found, reason="kept_by_cpu_pods")["unallocated_ns"] == 6 * S
