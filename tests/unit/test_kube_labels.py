"""What a node's labels say, cloud by cloud."""

import pytest

from gpuledger.agent.holders.source import Holders
from gpuledger.contract.records import NodeLayout
from gpuledger.kube import layout_of_labels, layout_of_node, parse_time_ns
from gpuledger.kube.labels import instance_id
from tests.support.agent import devices
from tests.support.kube_api import node

EKS = {
    "node.kubernetes.io/instance-type": "p5.48xlarge",
    "topology.kubernetes.io/zone": "eu-west-1a",
    "topology.kubernetes.io/region": "eu-west-1",
    "eks.amazonaws.com/nodegroup": "gpu",
    "eks.amazonaws.com/capacityType": "SPOT",
}


def test_a_node_says_what_it_is() -> None:
    found = layout_of_node(node(labels=EKS))
    assert found.instance_id == "i-0abc"
    assert (found.instance_type, found.zone, found.region) == ("p5.48xlarge", "eu-west-1a", "eu-west-1")
    assert (found.node_pool, found.capacity_type) == ("gpu", "spot")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"karpenter.sh/capacity-type": "on-demand"}, "on_demand"),
        ({"karpenter.sh/capacity-type": "reserved"}, "reserved"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on_demand"),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "reserved"),
        ({"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-nodepool": "p"}, "spot"),
        ({"cloud.google.com/gke-preemptible": "true"}, "spot"),
        ({"cloud.google.com/gke-nodepool": "p"}, "on_demand"),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, "spot"),
        ({"kubernetes.azure.com/cluster": "c"}, "on_demand"),
        ({}, ""),
    ],
)
def test_every_cloud_s_word_for_how_a_node_is_bought(labels: dict[str, str], expected: str) -> None:
    assert layout_of_labels(labels).capacity_type == expected


@pytest.mark.parametrize(
    ("provider_id", "expected"),
    [
        ("aws:///eu-west-1a/i-0abc", "i-0abc"),
        ("gce://project/europe-west4-a/gke-pool-1234", "gke-pool-1234"),
        (
            "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
            "virtualMachineScaleSets/gpu/virtualMachines/3",
            "gpu/3",
        ),
        ("", ""),
    ],
)
def test_the_instance_is_what_its_cloud_calls_it(provider_id: str, expected: str) -> None:
    assert instance_id(provider_id) == expected


def test_labels_of_gpus_and_clouds_are_kept_and_the_rest_is_not() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/mig.config": "all-1g.10gb",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "feature.node.kubernetes.io/cpu-cpuid.AVX512": "true",
    }
    found = layout_of_labels(labels)
    assert found.gpu_count == 8
    assert sorted(found.labels) == sorted(labels)[1:]


def test_what_was_stated_for_the_agent_wins_over_the_cluster() -> None:
    stated = NodeLayout(instance_type="stated", labels={"gpuledger.io/rack": "7"}, devices=devices())
    told = layout_of_node(node(labels=EKS))
    found = Holders(node=told).layout(stated)
    assert (found.instance_type, found.zone) == ("stated", "eu-west-1a")
    assert found.labels["gpuledger.io/rack"] == "7"
    assert found.labels["eks.amazonaws.com/nodegroup"] == "gpu"
    assert found.devices == stated.devices


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-11-05T10:00:00Z", 1_762_336_800_000_000_000),
        ("2025-11-05T10:00:00.000001Z", 1_762_336_800_000_001_000),
        ("2025-11-05T12:00:00+02:00", 1_762_336_800_000_000_000),
        ("2025-11-05T10:00:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times_are_read_to_the_microsecond(text: object, expected: int | None) -> None:
    assert parse_time_ns(text) == expected
