"""The compose file and the Dockerfile: valid, without secrets, with no more rights than are needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
GPULEDGER = ("topics", "schemas", "processor", "sink", "budgets", "agent")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """The services as docker-compose itself resolves them, with its anchors and variables."""
    shown = subprocess.run(
        ["docker-compose", "-f", str(COMPOSE), "config"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return dict(yaml.safe_load(shown.stdout)["services"])


def test_docker_compose_takes_the_file_without_a_word() -> None:
    checked = subprocess.run(
        ["docker-compose", "-f", str(COMPOSE), "config", "-q"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_it_names_the_production_parts(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {"kafka", "registry", "clickhouse", *GPULEDGER}
    version = re.fullmatch(r"clickhouse/clickhouse-server:(\d+)\.(\d+)", services["clickhouse"]["image"])
    assert version
    assert (int(version[1]), int(version[2])) >= (25, 8)
    assert re.fullmatch(r"apache/kafka:4\.\d+\.\d+", services["kafka"]["image"])
    assert services["registry"]["image"].startswith("apicurio/apicurio-registry:3.0.")


def test_kafka_and_registry_are_the_versions_that_the_tests_run(services: dict[str, dict[str, Any]]) -> None:
    pom = (ROOT / "services/gpuledger/localstack/pom.xml").read_text()
    for service, name in (("kafka", "kafka.version"), ("registry", "apicurio.version")):
        assert f"<{name}>{services[service]['image'].partition(':')[2]}</{name}>" in pom


def test_no_secret_stands_in_the_file(services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"password|secret|token|key", name, re.IGNORECASE):
                assert str(value).startswith("/run/secrets/"), name
            assert not re.search(r"://[^/@:]*:[^@/]+@", str(value)), name


def test_every_part_drops_what_it_does_not_need(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert service.get("network_mode") != "host", name
        if name in GPULEDGER:
            assert service["read_only"] is True, name
        if name != "agent":
            assert "pid" not in service, name
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), name


def test_only_the_agent_sees_the_host_and_only_to_read(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        host = [volume for volume in service.get("volumes", []) if str(volume).startswith("/")]
        assert name == "agent" or not host
        assert all(volume.endswith(":ro") for volume in host)
    assert "SYS_ADMIN" not in services["agent"]["cap_add"]


def test_servers_and_the_agent_tell_their_health_and_others_wait_for_it(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in ("kafka", "registry", "clickhouse", "agent"):
        assert services[name]["healthcheck"]["test"][0] == "CMD"
    assert services["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    for name in ("processor", "sink", "agent"):
        waits = services[name]["depends_on"]
        assert waits["topics"] == waits["schemas"] == {"condition": "service_completed_successfully"}


def test_every_volume_that_is_used_outlives_its_container() -> None:
    parsed = yaml.safe_load(COMPOSE.read_text())
    used = {
        str(volume).partition(":")[0]
        for service in parsed["services"].values()
        for volume in service.get("volumes", [])
        if not str(volume).startswith("/")
    }
    assert used == set(parsed["volumes"])


def test_the_image_copies_what_exists_and_the_builder_may_see() -> None:
    text = DOCKERFILE.read_text()
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


def test_downloads_are_hashed_and_services_are_not_root() -> None:
    text = DOCKERFILE.read_text()
    for install in re.findall(r"pip install [^\n\\]*", text):
        assert "--require-hashes" in install or "--no-deps" in install
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n((?:(?!^FROM ).*\n?)*)", text, re.MULTILINE))
    assert list(stages) == ["python", "build", "service", "agent"]
    assert re.findall(r"^USER (.+)$", stages["service"], re.MULTILINE) == ["10001:10001"]
    assert text.startswith("#")
    assert "FROM debian:12-slim AS python" in text
