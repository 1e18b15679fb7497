"""Class archives: a server's classes as they were after a first start, mapped instead of loaded and verified.

A start costs about half the CPU time with them. The JVM itself ignores an archive made by another Java or
from other jars.
"""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpuledger.localstack.artifacts import fetch
from gpuledger.localstack.errors import StackError
from gpuledger.localstack.kafka import Kafka
from gpuledger.localstack.registry import Registry
from gpuledger.localstack.server import POLL_S, START_TIMEOUT_S, Server, class_archive

WRITE_TIMEOUT_S = 180.0  # the archive is written as the process ends; 4 s on an idle machine


def archive_classes(build_dir: Path) -> None:
    """Fetch, then start and stop each server whose archive is missing, and keep its classes.

    Safe beside other processes that do the same. Raises StackError when a server does not start; the others
    and the jars stay good without its archive.
    """
    fetch(build_dir)
    with (build_dir / "classes.lock").open("w") as lock, tempfile.TemporaryDirectory() as data:
        fcntl.flock(lock, fcntl.LOCK_EX)
        servers = (Kafka(Path(data) / "kafka", build_dir), Registry(Path(data) / "registry", build_dir))
        missing = [server for server in servers if not class_archive(build_dir, server.name).exists()]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            processes += [_begin(server, build_dir) for server in missing]
            for server, process in zip(missing, processes, strict=True):
                _await(server, process)
                process.terminate()
            for server, process in zip(missing, processes, strict=True):
                process.wait(WRITE_TIMEOUT_S)
                _partial(build_dir, server).replace(class_archive(build_dir, server.name))
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StackError(f"no archive of the classes could be written: {error}") from error
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _begin(server: Server, build_dir: Path) -> subprocess.Popen[bytes]:
    server.data_dir.mkdir(parents=True)
    server.choose_ports()
    program, *rest = server.command()
    command: Sequence[str] = [program, f"-XX:ArchiveClassesAtExit={_partial(build_dir, server)}", *rest]
    with server.log_path.open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _await(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not server.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise StackError(f"{server.name} did not start; {server.log_end()}")
        time.sleep(POLL_S)
    server.after_start()


def _partial(build_dir: Path, server: Server) -> Path:
    return class_archive(build_dir, server.name).resolve().with_suffix(".part")
