"""The Kubernetes manifests: valid by the published schemas, with no more rights than the code uses."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from gpuledger.agent.cli import app as agent_app
from gpuledger.agent.holders.choose import KUBELET_SOCKET
from gpuledger.agent.holders.kubernetes import ApiPods
from gpuledger.agent.holders.podresources import ClaimDevice
from gpuledger.agent.privileges import NEEDED
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.records import Pod
from gpuledger.inventory.cli import app as inventory_app
from gpuledger.inventory.sources import ClusterSource
from gpuledger.kube import KubeClient
from tests.support.kube_api import KubeApi
from tests.support.waiting import until

DIRECTORY = Path(__file__).parents[2] / "deploy" / "kubernetes"
FILES = ("namespace.yaml", "agent.yaml", "inventory.yaml")
VERSIONS = ("1.31", "1.34", "1.37")  # the oldest that clouds still run, one between, the newest published
APPS = {"agent": agent_app, "inventory": inventory_app}
READ = {"list", "watch"}
VERBS = {"resourceclaims": {"get"}, "poddisruptionbudgets": {"list"}}


def objects(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DIRECTORY / file).read_text()))


def one(file: str, kind: str) -> dict[str, Any]:
    (found,) = (item for item in objects(file) if item["kind"] == kind)
    return found


def pod_of(file: str) -> dict[str, Any]:
    kind = "DaemonSet" if file == "agent.yaml" else "Deployment"
    return dict(one(file, kind)["spec"]["template"]["spec"])


def container_of(file: str) -> dict[str, Any]:
    (container,) = pod_of(file)["containers"]
    return dict(container)


@pytest.mark.parametrize(("file", "version"), list(itertools.product(FILES, VERSIONS)))
def test_every_object_is_valid_by_the_published_schema(file: str, version: str) -> None:
    for item in objects(file):
        kubernetes_validate.validate(item, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    wrong = one("agent.yaml", "DaemonSet")
    wrong["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("file", FILES[1:])
def test_the_command_is_one_that_there_is(file: str) -> None:
    service, command, *options = container_of(file)["args"]
    found = typer.main.get_command(APPS[service])
    chosen = found.get_command(None, command)  # type: ignore[attr-defined]
    environment = ["--cluster=c", "--node=n"][: 2 if service == "agent" else 1]
    with chosen.make_context(command, [*environment, *options]) as context:
        assert context.params["metrics_port"] == container_of(file)["ports"][0]["containerPort"]
        assert context.params["metrics_address"] == "0.0.0.0"


def test_the_settings_are_ones_that_are_read() -> None:
    names = set(one("namespace.yaml", "ConfigMap")["data"]) - {"GPULEDGER_CLUSTER"}
    read = {*BusSettings.model_fields, *(f"budgets_{name}" for name in BudgetSettings.model_fields)}
    assert {name.removeprefix("GPULEDGER_").lower() for name in names} <= read


@pytest.mark.parametrize("file", FILES[1:])
def test_a_container_can_write_nowhere_but_where_it_must(file: str) -> None:
    context = container_of(file)["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert not context["privileged"]
    assert not context["allowPrivilegeEscalation"]
    writable = [m["mountPath"] for m in container_of(file).get("volumeMounts", []) if not m.get("readOnly")]
    assert writable == (["/var/lib/gpuledger", "/run/gpuledger", "/tmp"] if file == "agent.yaml" else [])


def test_the_agent_has_the_capabilities_that_it_names_here_and_in_the_compose_file_and_no_others() -> None:
    compose = yaml.safe_load((DIRECTORY.parents[1] / "docker-compose.yml").read_text())
    capabilities = container_of("agent.yaml")["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    assert set(capabilities["add"]) == set(compose["services"]["agent"]["cap_add"])
    assert set(capabilities["add"]) == {one.name for one in NEEDED}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_agent_that_asks_the_kubelet_alone_may_read_its_list_of_pods_and_nothing_else(
    version: str,
) -> None:
    for item in objects("agent-kubelet.yaml"):
        kubernetes_validate.validate(item, version, strict=True)
    role, binding = objects("agent-kubelet.yaml")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["nodes/pods", "nodes/proxy"], "verbs": ["get"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == one("agent.yaml", "ClusterRoleBinding")["subjects"]


def test_the_inventory_is_no_root_and_has_no_capability() -> None:
    pod, container = pod_of("inventory.yaml"), container_of("inventory.yaml")
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "hostPID" not in pod


@pytest.mark.parametrize("file", FILES[1:])
def test_probes_and_limits_are_there(file: str) -> None:
    container = container_of(file)
    alive = "/alive" if file == "agent.yaml" else "/metrics"
    for probe, path in (("livenessProbe", alive), ("readinessProbe", "/metrics")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
    for kind in ("requests", "limits"):
        assert {"cpu", "memory"} <= set(container["resources"][kind])


def test_the_kubelet_s_socket_is_where_the_agent_looks_for_it() -> None:
    mounts = {mount["name"]: mount for mount in container_of("agent.yaml")["volumeMounts"]}
    assert mounts["pod-resources"]["mountPath"] == str(KUBELET_SOCKET.parent)
    assert set(mounts) == {volume["name"] for volume in pod_of("agent.yaml")["volumes"]}


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi()
    yield server
    server.close()


@pytest.mark.parametrize("file", FILES[1:])
def test_the_role_allows_what_the_code_asks_for_and_nothing_else(file: str, api: KubeApi) -> None:
    source: ApiPods | ClusterSource
    if file == "agent.yaml":
        source = ApiPods(KubeClient(api.access), "node-a", SystemClock())
    else:
        source = ClusterSource(KubeClient(api.access), "c", 10**10, SystemClock())
    wanted = one(file, "ClusterRole")["rules"]
    allowed = {(group, name) for r in wanted for group in r["apiGroups"] for name in r["resources"]}
    with contextlib.closing(_Stopping(source)):
        source.start()
        if isinstance(source, ApiPods):
            source.allotments([ClaimDevice("research/one", "gpu.nvidia.com", "node-a", "gpu-0")])
            source.blocked([Pod("u", "research", "one")])
        until(lambda: _asked(api) == allowed)
    for rule in wanted:
        assert set(rule["verbs"]) == VERBS.get(rule["resources"][0], READ)
    assert one(file, "ClusterRoleBinding")["roleRef"]["name"] == one(file, "ClusterRole")["metadata"]["name"]
    (subject,) = one(file, "ClusterRoleBinding")["subjects"]
    assert (
        subject["name"]
        == one(file, "ServiceAccount")["metadata"]["name"]
        == pod_of(file)["serviceAccountName"]
    )


class _Stopping:
    def __init__(self, source: ApiPods | ClusterSource) -> None:
        self.close = source.stop


def _asked(api: KubeApi) -> set[tuple[str, str]]:
    """(API group, resource) of every request."""
    found = set()
    for text in api.requests:
        parts = text.partition("?")[0].strip("/").split("/")
        resource = parts[parts.index("namespaces") + 2] if "namespaces" in parts else parts[-1]
        found.add(("" if parts[0] == "api" else parts[1], resource))
    return found
