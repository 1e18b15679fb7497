"""The local servers: kept across a crash, and never left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger.localstack import Kafka, Registry, StackError, fetch, port_open
from gpuledger.localstack import registry as registry_server
from gpuledger.localstack.server import START_TIMEOUT_S, class_archive
from tests.support.kafka import STACK_DIRECTORY
from tests.support.waiting import PATIENCE_S, until

STARTER = """
import signal, sys, time
from pathlib import Path
from gpuledger.localstack import Kafka
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands do not hear of it
with Kafka(Path(sys.argv[1]), Path(sys.argv[2])) as server:
    print(server.pid, server.port, flush=True)
    time.sleep(600)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it went between the opening and the reading at the latest
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path, how: signal.Signals) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "kafka"), str(STACK_DIRECTORY)],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert starter.stdout is not None
        pid, port = map(int, starter.stdout.readline().split())
        assert _alive(pid)
        assert port_open(port)
        starter.send_signal(how)
        starter.wait(PATIENCE_S)
        until(lambda: not _alive(pid))
        assert not port_open(port)
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()


def test_a_killed_supervisor_takes_the_server_with_it(new_registry: Registry) -> None:
    new_registry.start()
    pid = new_registry.pid
    supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert supervisor != os.getpid()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not _alive(pid))


def test_a_registry_comes_back_on_its_port_with_its_data_after_kill_9(
    new_registry: Registry,
) -> None:
    new_registry.start()
    url = new_registry.url
    new_registry.kill9()
    assert not new_registry.running
    new_registry.restart()
    assert new_registry.url == url
    assert new_registry.is_ready()


def test_a_registry_gives_its_database_as_long_as_it_is_told(
    new_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option is the one that is read: with what is no time there is no start."""
    assert registry_server.DATABASE_WAIT_S >= START_TIMEOUT_S
    monkeypatch.setattr(registry_server, "DATABASE_WAIT_S", "long")
    with pytest.raises(StackError):
        new_registry.start()
    assert "PTlongS" in new_registry.log_path.read_text()


def test_starting_twice_is_refused(registry: Registry) -> None:
    with pytest.raises(StackError, match="running already"):
        registry.begin()


def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    server = Kafka(tmp_path / "kafka", STACK_DIRECTORY)
    (tmp_path / "kafka" / "log").mkdir(parents=True)
    (tmp_path / "kafka" / "log" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
    with pytest.raises(StackError, match=r"kafka ended with status (?s:.)*node.id"):
        server.start()
    assert not server.running


def test_a_broker_maps_the_classes_of_an_earlier_start(kafka: Kafka) -> None:
    archive = class_archive(STACK_DIRECTORY, "kafka").resolve()
    assert str(archive) in Path(f"/proc/{kafka.pid}/maps").read_text()


def test_an_archive_of_classes_that_is_no_good_is_ignored(tmp_path: Path) -> None:
    for part in ("kafka", "registry", "stamp"):
        (tmp_path / part).symlink_to(STACK_DIRECTORY / part)
    class_archive(tmp_path, "kafka").write_bytes(b"of another Java")
    with Kafka(tmp_path / "data", tmp_path) as server:
        assert port_open(server.port)


def test_a_second_fetch_only_reads_the_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(STACK_DIRECTORY)
    monkeypatch.setenv("PATH", "")  # no Maven to be had
    fetch(STACK_DIRECTORY)


def test_a_missing_maven_is_said_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("java",):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="mvn is not installed"):
        fetch(tmp_path / "stack")
    assert not (tmp_path / "stack").exists()
