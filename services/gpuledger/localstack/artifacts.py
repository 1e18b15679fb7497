"""Fetch the broker and the registry as Maven artifacts, once."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from gpuledger.localstack.errors import StackError

POM = Path(__file__).with_name("pom.xml")
FETCH_TIMEOUT_S = 900  # 165 MB; on a slow line minutes, not a quarter of an hour
_STAMP = "stamp"


def fetch(build_dir: Path) -> Path:
    """Make `build_dir` hold kafka/libs/*.jar and registry/, as pom.xml names them; returns it.

    Idempotent: a stamp holds the digest of the pom, and a second call only reads it. Safe beside other
    processes that do the same. Raises StackError when a tool is missing or the download fails; what was
    there before stays as it was.
    """
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()
    stamp = build_dir / _STAMP
    if _is(stamp, digest):
        return build_dir
    java()
    maven = shutil.which("mvn")
    if maven is None:
        raise StackError(
            "mvn is not installed: it fetches Kafka and the registry (Debian: apt-get install maven)"
        )
    build_dir.mkdir(parents=True, exist_ok=True)
    with (build_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is(stamp, digest):
            stamp.unlink(missing_ok=True)
            for part in ("kafka", "registry", "markers"):
                shutil.rmtree(build_dir / part, ignore_errors=True)
            for archive in build_dir.glob("*.jsa"):  # of the classes of other jars
                archive.unlink()
            _run_maven(maven, build_dir)
            stamp.write_text(digest, encoding="ascii")
    return build_dir


def java() -> str:
    """Path of the Java runtime; raises StackError when there is none."""
    found = shutil.which("java")
    if found is None:
        raise StackError(
            "java is not installed: Kafka and the registry need version 17 "
            "(Debian: apt-get install openjdk-17-jre-headless)"
        )
    return found


def _is(stamp: Path, digest: str) -> bool:
    return stamp.exists() and stamp.read_text(encoding="ascii") == digest


def _run_maven(maven: str, build_dir: Path) -> None:
    command = [maven, "--batch-mode", "--quiet", f"--file={POM}", f"-Dstack.directory={build_dir.resolve()}"]
    result = subprocess.run(
        [*command, "generate-resources"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if result.returncode:
        said = "\n  ".join((result.stdout + result.stderr).strip().splitlines()[:20])
        raise StackError(
            f"mvn could not fetch Kafka and the registry (status {result.returncode}):\n  {said}"
        )
