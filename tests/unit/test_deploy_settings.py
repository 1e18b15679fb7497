"""Every GPULEDGER_ variable that deployments and documents name is one that is read, so none is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import BusSettings
from gpuledger.cli import app
from gpuledger.processor.settings import ProcessorSettings

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
KUBERNETES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
TEXTS = [COMPOSE, ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy/kafka/README.md"]
NAME = re.compile(r"\bGPULEDGER_[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?!\*|_)")
SETTINGS = {"": BusSettings, "PROCESSOR_": ProcessorSettings, "BUDGETS_": BudgetSettings}
FILES_OF_SECRETS = {"GPULEDGER_WAREHOUSE_PASSWORD", "GPULEDGER_WAREHOUSE_PASSWORD_FILE"}  # warehouse.client
OF_COMPOSE_ITSELF = {"GPULEDGER_SECRETS"}  # where docker-compose finds the passwords
OF_THE_BUILD = {"GPULEDGER_WHEEL_WITHOUT_OBJECTS"}  # hatch_build.py
EXAMPLES = {"GPULEDGER_SLACK", "GPULEDGER_SMTP_PASSWORD"}  # secrets that a document names itself


def of_commands(command: Any) -> Iterator[str]:
    """Variables of all options below a command."""
    for parameter in command.params:
        named = parameter.envvar or ()
        yield from [named] if isinstance(named, str) else named
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from of_commands(command.get_command(None, name))


@pytest.fixture(scope="module")
def read() -> set[str]:
    """What any part of gpuledger reads."""
    fields = {
        f"GPULEDGER_{prefix}{name}".upper() for prefix, one in SETTINGS.items() for name in one.model_fields
    }
    return fields | set(of_commands(typer.main.get_command(app))) | FILES_OF_SECRETS


def of_containers(path: Path) -> dict[str, set[str]]:
    """Variables by container, those of ConfigMaps under their own name."""
    found: dict[str, set[str]] = {}
    for one in yaml.safe_load_all(path.read_text()):
        if one["kind"] == "ConfigMap":
            found[one["metadata"]["name"]] = set(one["data"])
        spec = one.get("spec", {})
        template = spec.get("jobTemplate", {"spec": spec})["spec"].get("template")
        for container in template["spec"]["containers"] if template else ():
            found[container["name"]] = {entry["name"] for entry in container.get("env", [])}
    return found


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_a_manifest_sets_nothing_that_is_not_read(path: Path, read: set[str]) -> None:
    for name, variables in of_containers(path).items():
        ours = {variable for variable in variables if variable.startswith("GPULEDGER_")}
        assert ours <= read, name


def test_the_compose_file_sets_nothing_that_is_not_read(read: set[str]) -> None:
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items():
        ours = {variable for variable in service.get("environment", {}) if variable.startswith("GPULEDGER_")}
        assert ours <= read, name


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_names_no_variable_that_is_not_read(path: Path, read: set[str]) -> None:
    known = read | OF_COMPOSE_ITSELF | OF_THE_BUILD | EXAMPLES
    assert set(NAME.findall(path.read_text())) <= known


def test_variables_are_found_in_every_kind_of_place(read: set[str]) -> None:
    assert {
        "GPULEDGER_KAFKA_BOOTSTRAP",
        "GPULEDGER_PROCESSOR_METRICS_PORT",
        "GPULEDGER_NOTIFY_TARGETS",
    } <= read
    line = of_containers(ROOT / "deploy" / "kubernetes" / "line.yaml")
    assert "GPULEDGER_PROCESSOR_DATA_DIRECTORY" in line["processor"]
    late = of_containers(ROOT / "deploy" / "kubernetes" / "commitments.yaml")
    assert "GPULEDGER_WAREHOUSE_URL" in late["commitments"]
