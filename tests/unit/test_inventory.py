"""When a node began and ended, from what the cluster shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpuledger.contract.records import NodeLifetime
from gpuledger.inventory.lives import Cluster, LifeKey, statements
from gpuledger.inventory.objects import ClaimFacts, NodeFacts, claim_facts, gpu_count, node_facts
from gpuledger.kube import parse_time_ns
from tests.support.inventory import CREATED, LAUNCHED, NOW, S, W, book, claim
from tests.support.kube_api import node

TYPE = {"node.kubernetes.io/instance-type": "p5.48xlarge", "karpenter.sh/capacity-type": "spot"}


def facts(item: dict[str, Any]) -> NodeFacts:
    found = node_facts(item)
    assert found is not None
    return found


def claimed(item: dict[str, Any]) -> ClaimFacts:
    found = claim_facts(item)
    assert found is not None
    return found


def say(
    seen: Cluster, stated: Mapping[LifeKey, NodeLifetime] | None = None, now: int = NOW
) -> list[NodeLifetime]:
    return statements("prod", seen, stated or {}, W, now)


def test_a_node_is_stated_with_what_it_is_from_its_making() -> None:
    (life,) = say(Cluster([facts(node(labels=TYPE))]))
    assert (life.cluster, life.node, life.launched_ns, life.ended_ns) == ("prod", "node-a", CREATED, None)
    layout = life.layout
    assert (layout.instance_id, layout.instance_type, layout.capacity_type) == (
        "i-0abc",
        "p5.48xlarge",
        "spot",
    )
    assert layout.gpu_count == 8
    assert (life.stated_by, life.stated_ns, life.window_length_ns) == ("inventory", NOW, W)


def test_a_node_with_a_claim_is_paid_for_from_the_launch_of_its_instance() -> None:
    (life,) = say(Cluster([facts(node())], [claimed(claim())]))
    assert life.launched_ns == LAUNCHED


def test_a_claim_that_is_seen_after_its_node_moves_the_launch_back() -> None:
    (first,) = say(Cluster([facts(node())]))
    (second,) = say(Cluster([facts(node())], [claimed(claim())]), book(first))
    assert (first.launched_ns, second.launched_ns) == (CREATED, LAUNCHED)
    assert say(Cluster([facts(node())]), book(second)) == [], "and it never moves forward again"


def test_a_node_without_gpus_is_not_stated() -> None:
    plain = node()
    plain["status"]["capacity"] = {"cpu": "96"}
    assert say(Cluster([facts(plain)])) == []


@pytest.mark.parametrize("label", ["nvidia.com/gpu.present", "cloud.google.com/gke-accelerator"])
def test_a_node_whose_gpus_are_not_offered_yet_is_stated_all_the_same(label: str) -> None:
    young = node(labels={label: "true"})
    young["status"] = {}
    assert [life.node for life in say(Cluster([facts(young)]))] == ["node-a"]


def test_what_was_said_is_not_said_again() -> None:
    seen = Cluster([facts(node(labels=TYPE))])
    assert say(seen, book(*say(seen)), NOW + S) == []


def test_a_label_that_comes_later_is_said_and_one_that_goes_is_kept() -> None:
    (first,) = say(Cluster([facts(node())]))
    (second,) = say(Cluster([facts(node(labels=TYPE))]), book(first))
    assert second.layout.instance_type == "p5.48xlarge"
    for third in say(Cluster([facts(node())]), book(second)):
        assert third.layout.instance_type == "p5.48xlarge"


def test_a_node_that_goes_ended_when_it_was_missed() -> None:
    (life,) = say(Cluster([facts(node())]))
    (end,) = say(Cluster(node_gone_ns={"node-a": NOW + 5 * S}), book(life), NOW + 7 * S)
    assert (end.launched_ns, end.ended_ns, end.layout) == (CREATED, NOW + 5 * S, life.layout)


def test_a_node_that_went_while_nobody_looked_ended_now() -> None:
    (life,) = say(Cluster([facts(node())]))
    (end,) = say(Cluster(), book(life), NOW + 7 * S)
    assert end.ended_ns == NOW + 7 * S


def test_while_the_claim_is_there_the_instance_is_paid_for() -> None:
    (life,) = say(Cluster([facts(node())], [claimed(claim())]))
    assert say(Cluster(claims=[claimed(claim())], node_gone_ns={"node-a": NOW}), book(life)) == []
    gone = {"aws:///eu-west-1a/i-0abc": NOW + 60 * S}
    (end,) = say(Cluster(node_gone_ns={"node-a": NOW}, claim_gone_ns=gone), book(life), NOW + 90 * S)
    assert end.ended_ns == NOW + 60 * S


def test_an_end_is_said_once() -> None:
    (life,) = say(Cluster([facts(node())]))
    (end,) = say(Cluster(), book(life))
    assert say(Cluster(), book(end), NOW + S) == []


def test_another_instance_under_the_same_name_is_another_life() -> None:
    (old,) = say(Cluster([facts(node())], [claimed(claim())]))
    anew = node(uid="uid-2")
    anew["spec"]["providerID"] = "aws:///eu-west-1a/i-0def"
    other = claim("c2", "aws:///eu-west-1a/i-0def")
    told = say(Cluster([facts(anew)], [claimed(other)], {"node-a": NOW}), book(old), NOW + S)
    assert [(life.layout.instance_id, life.ended_ns) for life in told] == [("i-0def", None), ("i-0abc", NOW)]


def test_an_instance_that_joins_again_after_its_end_begins_another_life() -> None:
    (life,) = say(Cluster([facts(node())]))
    (end,) = say(Cluster(), book(life))
    again = node(uid="uid-2")
    again["metadata"]["creationTimestamp"] = "2025-11-05T12:00:00Z"
    (second,) = say(Cluster([facts(again)]), book(end))
    assert second.layout.instance_id == "i-0abc+uid-2"
    assert second.launched_ns == parse_time_ns("2025-11-05T12:00:00Z")
    assert say(Cluster([facts(again)]), book(end, second)) == []


def test_a_node_outside_a_cloud_is_known_by_its_object() -> None:
    bare = node()
    bare["spec"] = {}
    assert say(Cluster([facts(bare)]))[0].layout.instance_id == "node-uid"


def test_what_the_agent_stated_is_not_the_inventory_s_to_end() -> None:
    life = NodeLifetime("prod", "node-b", facts(node("node-b")).layout, stated_by="agent")
    assert say(Cluster(), book(life)) == []


def test_a_claim_without_an_instance_is_none_yet() -> None:
    waiting = claim()
    del waiting["status"]["providerID"]
    assert claim_facts(waiting) is None


@pytest.mark.parametrize(
    ("labels", "capacity", "expected"),
    [
        ({"nvidia.com/gpu.count": "8"}, {"nvidia.com/gpu": "32"}, 8),
        ({"karpenter.k8s.aws/instance-gpu-count": "4"}, {}, 4),
        ({"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu": "32"}, 8),
        ({}, {"nvidia.com/gpu": "8"}, 8),
        ({}, {"nvidia.com/gpu": "many"}, 0),
        ({}, {}, 0),
    ],
)
def test_gpus_are_counted_and_not_their_slots(
    labels: dict[str, str], capacity: dict[str, str], expected: int
) -> None:
    assert gpu_count(labels, capacity) == expected
