"""The manifests of recommendations: what Kubernetes, the GPU operator, Karpenter and KEDA would accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from gpuledger.contract.gpu_models import profiles_of
from gpuledger.recommend import manifests
from gpuledger.recommend.mig import full_layout
from tests.support.evidence import hours, workload

DEPLOY = Path(__file__).parents[2] / "deploy"
TEXT = {"type": "string", "minLength": 1}


def closed(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    properties = required | (optional or {})
    return {
        "type": "object", "properties": properties, "required": list(required), "additionalProperties": False
    }  # fmt: skip


def several(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


def one_of(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


# The parts of karpenter.sh_nodepools.yaml (v1) that the manifests use; unknown fields are pruned in silence
# by the API server, so here they are a mistake.
TAINT = closed(
    {"key": TEXT, "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute")}, {"value": TEXT}
)
REQUIREMENT = closed(
    {"key": TEXT, "operator": one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")},
    {"values": {"type": "array", "items": {"type": "string"}}},
)
NODE_CLASS = closed({"group": TEXT, "kind": TEXT, "name": TEXT})
NODE_POOL = closed({
    "apiVersion": one_of("karpenter.sh/v1"),
    "kind": one_of("NodePool"),
    "metadata": closed({"name": TEXT}),
    "spec": closed({
        "template": closed({
            "metadata": closed({"labels": {"type": "object"}}),
            "spec": closed({
                "requirements": several(REQUIREMENT), "nodeClassRef": NODE_CLASS, "taints": several(TAINT)
            }),
        }),
        "disruption": closed({
            "consolidationPolicy": one_of("WhenEmpty", "WhenEmptyOrUnderutilized"),
            "consolidateAfter": {"type": "string", "pattern": r"^(([0-9]+(s|m|h))+|Never)$"},
            "budgets": several(closed({"nodes": {"pattern": "^((100|[0-9]{1,2})%|[0-9]+)$"}})),
        }),
    }),
})  # fmt: skip
SCALED_OBJECT = closed({
    "apiVersion": one_of("keda.sh/v1alpha1"),
    "kind": one_of("ScaledObject"),
    "metadata": closed({"name": TEXT, "namespace": TEXT}),
    "spec": closed({
        "scaleTargetRef": closed({"apiVersion": TEXT, "kind": TEXT, "name": TEXT}),
        "minReplicaCount": {"const": 0},
        "triggers": several(closed({
            "type": one_of("cron"),
            "metadata": closed({"timezone": TEXT, "start": TEXT, "end": TEXT, "desiredReplicas": TEXT}),
        })),
    }),
})  # fmt: skip
RESOURCES = several(closed({"name": one_of("nvidia.com/gpu"), "replicas": {"type": "integer", "minimum": 2}}))
NO_PAIRS = {"const": True}
DEVICE_PLUGIN = closed({
    "version": one_of("v1"),
    "sharing": {"oneOf": [
        closed({"timeSlicing": closed({"resources": RESOURCES, "failRequestsGreaterThanOne": NO_PAIRS})}),
        closed({"mps": closed({"resources": RESOURCES})}),
    ]},
})  # fmt: skip
MIG_PARTED = closed({
    "version": one_of("v1"),
    "mig-configs": {"type": "object", "minProperties": 1, "additionalProperties": several(closed({
        "devices": one_of("all"),
        "mig-enabled": {"const": True},
        "mig-devices": {
            "type": "object",
            "patternProperties": {r"^[0-9]g\.[0-9]+gb$": {"type": "integer", "minimum": 1}},
            "additionalProperties": False,
        },
    }))},
})  # fmt: skip


def parsed(made: dict[str, str]) -> Any:
    (text,) = made.values()
    return yaml.safe_load(text)


@pytest.mark.parametrize("made", [manifests.gpu_node_pool(), manifests.spot_node_pool()])
def test_a_node_pool_is_one_of_karpenters_v1(made: dict[str, str]) -> None:
    jsonschema.validate(parsed(made), NODE_POOL)


def test_a_spot_pool_takes_only_what_tolerates_it() -> None:
    spec = parsed(manifests.spot_node_pool())["spec"]["template"]["spec"]
    assert {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]} in spec["requirements"]
    assert [taint["key"] for taint in spec["taints"]] == ["nvidia.com/gpu", "gpuledger.io/spot"]


@pytest.mark.parametrize("made", [manifests.time_slicing(4), manifests.mps(4)])
def test_sharing_is_a_configuration_of_the_device_plugin_under_the_name_of_its_label(
    made: dict[str, str],
) -> None:
    ((name, text),) = parsed(made)["data"].items()
    jsonschema.validate(yaml.safe_load(text), DEVICE_PLUGIN)
    assert f"nvidia.com/device-plugin.config={name} " in next(iter(made.values()))


def test_a_mig_layout_is_a_configuration_of_the_mig_manager_under_the_name_of_its_label() -> None:
    made = manifests.mig_layout("all-2g.20gb", {"2g.20gb": 3})
    config = yaml.safe_load(parsed(made)["data"]["config.yaml"])
    jsonschema.validate(config, MIG_PARTED)
    (name,) = config["mig-configs"]
    assert f"nvidia.com/mig.config={name} " in next(iter(made.values()))


@pytest.mark.parametrize(("end", "stops"), [(20, "0 20 * * 1-5"), (24, "0 0 * * 2-6")])
def test_a_schedule_is_a_scaled_object_that_ends_on_the_day_it_should(end: int, stops: str) -> None:
    made = parsed(manifests.schedule(workload(hours(1)), 3, 7, end, "Europe/Berlin"))
    jsonschema.validate(made, SCALED_OBJECT)
    assert made["spec"]["triggers"][0]["metadata"]["end"] == stops
    assert made["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ranker"}


FILES = {
    "karpenter": manifests.gpu_node_pool() | manifests.spot_node_pool(),
    "gpu-operator": manifests.mig_layout("all-2g.20gb", {"2g.20gb": 3})
    | manifests.time_slicing(4)
    | manifests.mps(4),
}


@pytest.mark.parametrize("folder", FILES)
def test_the_manifests_in_deploy_are_those_that_are_recommended(folder: str) -> None:
    there = {path.name: path.read_text() for path in (DEPLOY / folder).glob("*.yaml")}
    assert there == FILES[folder]


@pytest.mark.parametrize("name", FILES["gpu-operator"])
def test_config_maps_are_valid_to_kubernetes(name: str) -> None:
    item = yaml.safe_load((DEPLOY / "gpu-operator" / name).read_text())
    kubernetes_validate.validate(item, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    ("slices", "layout"),
    [
        ([3, 3], {"4g.40gb": 1, "3g.40gb": 1}),
        ([2, 2, 2], {"2g.20gb": 3, "1g.10gb": 1}),
        ([4], {"4g.40gb": 1, "3g.40gb": 1}),
        ([1] * 6, {"2g.20gb": 1, "1g.10gb": 5}),
    ],
)
def test_a_full_layout_has_a_place_for_each_instance_that_is_there(
    slices: list[int], layout: dict[str, int]
) -> None:
    assert full_layout("NVIDIA H100 80GB HBM3", slices) == layout
    sizes = {profile.name: profile.slices for profile in profiles_of("NVIDIA H100 80GB HBM3")}
    assert sum(sizes[name] * count for name, count in layout.items()) == 7


def test_models_without_mig_have_no_profiles() -> None:
    assert profiles_of("Tesla T4") == ()
    assert full_layout("Tesla T4", [1]) is None
