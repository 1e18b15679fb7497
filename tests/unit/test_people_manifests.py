"""The manifests of notify, of the exporter and of what scrapes: valid, and they fit each other."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import typer
import yaml

from gpuledger.exporter.cli import app as exporter_app
from gpuledger.notify.cli import app as notify_app
from tests.support.monitors import MONITORS

DIRECTORY = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.31", "1.34", "1.37")  # the oldest that clouds still run, one between, the newest published
APPS = {"notify": notify_app, "exporter": exporter_app}


def objects(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DIRECTORY / file).read_text()))


def deployments() -> dict[str, dict[str, Any]]:
    found = [one for one in objects("people.yaml") if one["kind"] == "Deployment"]
    return {one["metadata"]["name"].removeprefix("gpuledger-"): one["spec"]["template"] for one in found}


def container(service: str) -> dict[str, Any]:
    (one,) = deployments()[service]["spec"]["containers"]
    return dict(one)


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions", [])
    assert all(one["operator"] == "In" for one in expressions)
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items()) and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_by_the_published_schema(version: str) -> None:
    for one in objects("people.yaml"):
        kubernetes_validate.validate(one, version, strict=True)


def test_every_monitor_has_only_fields_that_the_operator_knows() -> None:
    found = objects("monitors.yaml")
    for one in found:
        jsonschema.validate(one, MONITORS[one["kind"]])
    assert {one["kind"] for one in found} == set(MONITORS)
    wrong = found[0] | {"spec": found[0]["spec"] | {"podMetricsEndpoint": []}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, MONITORS["PodMonitor"])


def test_every_pod_with_metrics_is_scraped_by_one_monitor() -> None:
    pods, services = {}, {}
    for file in ("agent.yaml", "inventory.yaml", "line.yaml", "people.yaml"):
        for one in objects(file):
            if one["kind"] in ("Deployment", "DaemonSet"):
                pods[one["metadata"]["name"]] = one["spec"]["template"]
            if one["kind"] == "Service":
                services[one["metadata"]["name"]] = one
    scraped = []
    for monitor in objects("monitors.yaml"):
        spec = monitor["spec"]
        if monitor["kind"] == "PodMonitor":
            ports = {one["port"] for one in spec["podMetricsEndpoints"]}
            chosen = [pod for pod in pods.values() if matches(spec["selector"], pod["metadata"]["labels"])]
        else:
            (service,) = (s for s in services.values() if matches(spec["selector"], s["metadata"]["labels"]))
            assert {one["port"] for one in spec["endpoints"]} == {p["name"] for p in service["spec"]["ports"]}
            ports = {port["targetPort"] for port in service["spec"]["ports"]}
            selector = {"matchLabels": service["spec"]["selector"]}
            chosen = [pod for pod in pods.values() if matches(selector, pod["metadata"]["labels"])]
        for pod in chosen:
            scraped.append(pod["metadata"]["labels"]["app.kubernetes.io/name"])
            assert ports == {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    assert sorted(scraped) == sorted(pods)


def test_the_exporter_s_own_names_win_over_those_of_its_pod() -> None:
    (monitor,) = (one for one in objects("monitors.yaml") if one["kind"] == "ServiceMonitor")
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


@pytest.mark.parametrize("service", APPS)
def test_the_command_is_one_that_there_is(service: str) -> None:
    name, command, *options = container(service)["args"]
    assert name == service
    chosen = typer.main.get_command(APPS[service]).get_command(None, command)  # type: ignore[attr-defined]
    with chosen.make_context(command, options) as context:
        assert context.params["metrics_port"] == container(service)["ports"][0]["containerPort"]
        assert context.params["metrics_address"] == "0.0.0.0"


@pytest.mark.parametrize("service", APPS)
def test_a_container_is_no_root_and_can_write_nowhere(service: str) -> None:
    pod, context = deployments()[service]["spec"], container(service)["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert all(mount["readOnly"] for mount in container(service)["volumeMounts"])


@pytest.mark.parametrize(
    ("service", "probe"), list(itertools.product(APPS, ("livenessProbe", "readinessProbe")))
)
def test_probes_and_limits_are_there(service: str, probe: str) -> None:
    assert container(service)[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    for kind in ("requests", "limits"):
        assert {"cpu", "memory"} <= set(container(service)["resources"][kind])
