"""The manifests of the line's services: valid, no more rights than needed, the same as in compose."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from gpuledger.budgets.settings import BudgetSettings
from gpuledger.cli import app
from gpuledger.processor.settings import ProcessorSettings

ROOT = Path(__file__).parents[2]
VERSIONS = ("1.31", "1.34", "1.37")  # the oldest that clouds still run, one between, the newest published
SERVICES = ("processor", "sink", "budgets", "archive")
COMMANDS = ("topics", "schemas", *SERVICES)
READ_ONLY_BUT = ["/tmp"]  # of memory, gone with the pod


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "line.yaml").read_text()))


def pods() -> dict[str, dict[str, Any]]:
    return {
        one["metadata"]["name"].removeprefix("gpuledger-"): one["spec"]["template"]["spec"]
        for one in objects()
    }


def containers() -> dict[str, dict[str, Any]]:
    return {
        container["name"]: container
        for pod in pods().values()
        for container in (*pod.get("initContainers", []), *pod["containers"])
    }


def variables(name: str) -> dict[str, str]:
    return {one["name"]: one["value"] for one in containers()[name].get("env", []) if "value" in one}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_by_the_published_schema(version: str) -> None:
    for one in objects():
        kubernetes_validate.validate(one, version, strict=True)


def test_all_services_of_the_line_are_there() -> None:
    assert set(pods()) == {"setup", *SERVICES}
    assert set(containers()) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_is_one_that_there_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in variables(name).items():
        monkeypatch.setenv(variable, value)
    command: Any = typer.main.get_command(app)
    words = [str(word) for word in containers()[name]["args"]]
    while hasattr(command, "get_command"):
        command = command.get_command(None, words.pop(0))
    port = containers()[name].get("ports", [{}])[0].get("containerPort")
    with command.make_context(name, words) as context:
        if name in ("sink", "archive"):
            assert (context.params["metrics_port"], context.params["metrics_address"]) == (port, "0.0.0.0")


def test_what_is_set_in_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, settings in (("processor", ProcessorSettings), ("budgets", BudgetSettings)):
        for variable, value in variables(name).items():
            monkeypatch.setenv(variable, value)
        read = settings()
        assert read.metrics_port == containers()[name]["ports"][0]["containerPort"]
        assert str(read.data_directory) == f"/tmp/{name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_container_is_no_root_and_can_write_nowhere_but_in_memory(name: str) -> None:
    container = containers()[name]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert not context["privileged"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    written = [one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")]
    assert written == READ_ONLY_BUT
    for kind in ("requests", "limits"):
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"][kind])


@pytest.mark.parametrize("name", ["setup", *SERVICES])
def test_a_pod_has_no_token_and_holds_to_the_restricted_level(name: str) -> None:
    pod = pods()[name]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod)
    assert {key for volume in pod["volumes"] for key in volume} <= {"name", "emptyDir", "secret"}


@pytest.mark.parametrize(
    ("name", "probe"), list(itertools.product(SERVICES, ("startupProbe", "livenessProbe", "readinessProbe")))
)
def test_every_service_is_probed(name: str, probe: str) -> None:
    assert containers()[name][probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}


@pytest.mark.parametrize("name", SERVICES)
def test_it_runs_as_in_the_compose_file(name: str) -> None:
    """The same command and port; only where the data goes differs."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][name]
    own = [str(word).partition("=")[0] for word in containers()[name]["args"]]
    theirs = [word for word in compose["command"] if not word[0].isdigit() and not word.startswith("/")]
    assert own == theirs
    assert str(containers()[name]["ports"][0]["containerPort"]) == compose["environment"]["METRICS"]
