"""The compose file, what it mounts, the Dockerfile: valid, without secrets, no more rights than needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gpuledger.cli import app
from gpuledger.contract.windows import DEFAULT_WINDOW_NS
from gpuledger.inventory.file import read_lives
from gpuledger.notify.document import AlertmanagerTarget, read_targets

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
RUNNING = (
    "processor",
    "sink",
    "budgets",
    "notify",
    "exporter",
    "commitments",
    "archive",
    "inventory",
    "agent",
)
GPULEDGER = ("topics", "schemas", *RUNNING)
SERVERS = ("kafka", "registry", "clickhouse", "prometheus", "alertmanager")


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
    assert set(services) == {*SERVERS, *GPULEDGER}
    version = re.fullmatch(r"clickhouse/clickhouse-server:(\d+)\.(\d+)", services["clickhouse"]["image"])
    assert version
    assert (int(version[1]), int(version[2])) >= (25, 8)
    assert re.fullmatch(r"apache/kafka:4\.\d+\.\d+", services["kafka"]["image"])
    assert services["registry"]["image"].startswith("apicurio/apicurio-registry:3.0.")


def test_kafka_and_registry_are_the_versions_that_the_tests_run(services: dict[str, dict[str, Any]]) -> None:
    pom = (ROOT / "services/gpuledger/localstack/pom.xml").read_text()
    for service, name in (("kafka", "kafka.version"), ("registry", "apicurio.version")):
        assert f"<{name}>{services[service]['image'].partition(':')[2]}</{name}>" in pom


@pytest.mark.parametrize("server", ["prometheus", "alertmanager"])
def test_prometheus_and_alertmanager_are_the_versions_that_the_tests_run(
    services: dict[str, dict[str, Any]], server: str
) -> None:
    """Debian's package is what the tests start."""
    program = {"prometheus": "prometheus", "alertmanager": "prometheus-alertmanager"}[server]
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"version (\d+\.\d+\.\d+)", said.stdout + said.stderr)
    assert version
    assert services[server]["image"] == f"prom/{server}:v{version[1]}"


def test_prometheus_takes_its_configuration_with_the_rules_where_they_are_mounted(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    for volume in services["prometheus"]["volumes"]:
        source, target, *_ = volume.split(":")
        if Path(source).is_absolute():
            inside = tmp_path / Path(target).relative_to("/etc/prometheus")
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.write_text(Path(source).read_text())
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rules found") == 2, "both files of rules"


def test_prometheus_scrapes_every_service_where_it_serves_its_metrics(
    services: dict[str, dict[str, Any]],
) -> None:
    parsed = yaml.safe_load((ROOT / "deploy" / "compose" / "prometheus.yml").read_text())
    targets = {
        target
        for job in parsed["scrape_configs"]
        if job["job_name"] != "dcgm-exporter"
        for static in job["static_configs"]
        for target in static["targets"]
    }
    served = {f"{name}:{services[name]['environment']['METRICS']}" for name in RUNNING}
    assert targets == served
    for name in RUNNING:
        port = services[name]["environment"]["METRICS"]
        said = [*services[name]["command"], *map(str, services[name]["environment"].values())]
        assert sum(str(word).removeprefix("--metrics-port=") == port for word in said) == 2, name
    (alertmanagers,) = parsed["alerting"]["alertmanagers"]
    assert alertmanagers["static_configs"][0]["targets"] == ["alertmanager:9093"]


def test_a_prometheus_on_one_host_scrapes_the_same_services(services: dict[str, dict[str, Any]]) -> None:
    parsed = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    jobs = [job for job in parsed["scrape_configs"] if job["job_name"] != "dcgm-exporter"]
    targets = {target for job in jobs for static in job["static_configs"] for target in static["targets"]}
    assert targets == {f"127.0.0.1:{services[name]['environment']['METRICS']}" for name in RUNNING}


def test_the_commands_are_ones_that_there_are(
    services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in GPULEDGER:
        for variable, value in services[name]["environment"].items():
            monkeypatch.setenv(variable, str(value))
        command: Any = typer.main.get_command(app)
        words = list(services[name]["command"])
        while hasattr(command, "get_command"):
            command = command.get_command(None, words.pop(0))
        assert command.name in (name, "apply", "register", "run")
        with command.make_context(name, words):
            pass  # every option is one of the command's, and all that it asks for is there


def test_notify_tells_the_alertmanager_that_is_there() -> None:
    path = ROOT / "deploy" / "compose" / "notify.yaml"
    (target,) = read_targets(path.read_text(), str(path))
    assert isinstance(target, AlertmanagerTarget)
    assert target.url == "http://alertmanager:9093"


def test_the_example_of_nodes_is_one_that_the_inventory_reads() -> None:
    lives = read_lives(ROOT / "deploy" / "examples" / "nodes.yaml", "compose", DEFAULT_WINDOW_NS)
    assert len(lives) == 1


def test_no_secret_stands_in_the_file(services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"password|secret|token|key", name, re.IGNORECASE):
                assert str(value).startswith("/run/secrets/"), name
            assert not re.search(r"://[^/@:]*:[^@/]+@", str(value)), name


def test_every_part_drops_what_it_does_not_need(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        # AppArmor's profile for containers forbids what the agent's CAP_SYS_PTRACE is for
        more = ["apparmor:unconfined"] if name == "agent" else []
        assert service["security_opt"] == ["no-new-privileges:true", *more], name
        assert not service.get("privileged"), name
        assert service.get("network_mode") != "host", name
        if name not in ("kafka", "clickhouse"):  # their images write beside their data
            assert service["read_only"] is True, name
        if name != "agent":
            assert "pid" not in service, name
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), name


def test_only_the_agent_sees_the_host_and_all_only_read_what_is_not_theirs(
    services: dict[str, dict[str, Any]],
) -> None:
    """Others are given documents of deploy/, a file each."""
    for name, service in services.items():
        host = [volume for volume in service.get("volumes", []) if str(volume).startswith("/")]
        assert all(volume.endswith(":ro") for volume in host)
        if name != "agent":
            sources = [Path(volume.partition(":")[0]) for volume in host]
            assert all(path.is_file() and path.is_relative_to(ROOT / "deploy") for path in sources), name
    assert "SYS_ADMIN" not in services["agent"]["cap_add"]


def test_all_that_run_tell_their_health_and_others_wait_for_it(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in (*SERVERS, *RUNNING):
        assert services[name]["healthcheck"]["test"][0] == "CMD", name
    assert services["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    for name in sorted({*RUNNING} - {"exporter"}):
        waits = services[name]["depends_on"]
        assert waits["topics"] == waits["schemas"] == {"condition": "service_completed_successfully"}


def test_every_volume_that_is_used_outlives_its_container() -> None:
    parsed = yaml.safe_load(COMPOSE.read_text())
    used = {
        str(volume).partition(":")[0]
        for service in parsed["services"].values()
        for volume in service.get("volumes", [])
        if not str(volume).startswith(("/", "./"))
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
