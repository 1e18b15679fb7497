"""The agent with the capabilities that it needs and no others, on a file system that it can not write to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuledger.agent.privileges import NEEDED, effective
from gpuledger.agent.probes.symbols import SILENT, SYMBOLS
from gpuledger.localstack.server import free_port
from tests.emulator import H100, LIBCUDA, Emulator, counted_calls
from tests.support.telemetry import ROOT, RunningAgent, running_agent
from tests.support.waiting import until

NOBODY = "127.0.0.1:9"
STRANGER = 65533  # a user that owns nothing
NAMES = [one.name for one in NEEDED]
COMMAND = [sys.executable, "-c", "from gpuledger.agent.cli import app; app()"]
RECORDED = {symbol.name for symbol in SYMBOLS if symbol.effect not in SILENT}
CALLS = sum(calls.calls for name, calls in counted_calls(23, 3).items() if name in RECORDED)

READ_ONLY = """
mount --make-rprivate /
for place in $WRITABLE; do mount --bind $place $place; done
cat /proc/self/mounts > $LIST  # what is remounted moves in it
while read -r _ place _; do
    case " $WRITABLE " in
    *" $place "*) ;;
    *) mount -o remount,bind,ro "$place" ;;
    esac
done < $LIST
exec "$@"
"""


def with_capabilities(names: list[str], uid: int) -> list[str]:
    """The start of a command that runs the rest so, whether the user is root or not."""
    given = "-all" + "".join(f",+{name.lower()}" for name in names)
    sets = ["--bounding-set", given, "--inh-caps", given, "--ambient-caps", given]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *sets]


def read_only(*writable: Path) -> list[str]:
    """The start of a command that runs the rest where nothing but these directories can be written to."""
    variables = [f"WRITABLE={' '.join(map(str, writable))}", f"LIST={writable[0].parent / 'mounts'}"]
    return ["unshare", "--mount", "env", *variables, "sh", "-ec", READ_ONLY, "sh"]


@contextlib.contextmanager
def agent(
    start: list[str], tmp_path: Path, emulator: Emulator, *options: str
) -> Iterator[tuple[RunningAgent, int]]:
    """(an agent that is at work without a broker, the port of its metrics)"""
    port = free_port()
    command = [*start, *COMMAND, "run", "--cluster", "c", "--node", "n", "--state", str(tmp_path / "state")]
    command += ["--bootstrap", NOBODY, "--registry", f"http://{NOBODY}", "--metrics-port", str(port)]
    command += ["--preattach", str(LIBCUDA), *options]
    with running_agent(command, tmp_path / "agent.log", emulator.env) as running:
        running.wait_log("epoch_begins")
        yield running, port


def events(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("gpuledger_agent_events_total")).split()[1])


def sets_of(pid: int) -> set[tuple[int, int, int, str]]:
    """(permitted, effective, bounding set, no new privileges) of each of its threads."""
    found = set()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            text = status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has ended since
        values = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        sets = (int(values[name], 16) for name in ("CapPrm", "CapEff", "CapBnd"))
        found.add((*sets, values["NoNewPrivs"]))  # type: ignore[arg-type]
    return found  # type: ignore[return-value]


def writable_for(pid: int) -> set[str]:
    """Where the process can write: of several mounts on one place the last hides the others."""
    lines = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    options = {words[1]: words[3].split(",") for words in lines}
    return {where for where, words in options.items() if "rw" in words}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


ALL = sum(1 << one.number for one in NEEDED)


@pytest.mark.parametrize("uid", [0, STRANGER], ids=["root", "stranger"])
def test_with_these_capabilities_alone_and_one_writable_directory_it_sees_every_call(
    uid: int, place: Path
) -> None:
    state = place / "state"
    state.mkdir()
    os.chown(state, uid, uid)
    with Emulator([H100]) as emulator:
        start = [*read_only(state, emulator.shm_path.parent), *with_capabilities(NAMES, uid)]
        # the emulated NVML writes to the shared model, which belongs to root
        options = [] if uid == 0 else ["--samplers", "none"]
        with agent(start, place, emulator, *options) as (running, port):
            assert sets_of(running.process.pid) == {(ALL, ALL, ALL, "1")}
            assert writable_for(running.process.pid) == {str(state), str(emulator.shm_path.parent)}
            emulator.spawn(["count", "--rounds", "23", "--host-threads", "3"]).communicate()
            until(lambda: events(port) >= CALLS)
            running.stop()
    assert list((state / "spool").iterdir()), "what Kafka has not got waits there"


def test_another_user_than_root_can_have_the_probes_compiled_by_bcc(place: Path) -> None:
    (place / "state").mkdir()
    os.chown(place / "state", STRANGER, STRANGER)
    options = ["--samplers", "none", "--loader", "bcc"]
    with (
        Emulator([H100]) as emulator,
        agent(with_capabilities(NAMES, STRANGER), place, emulator, *options) as (running, port),
    ):
        emulator.spawn(["count", "--rounds", "23"]).communicate()
        until(lambda: events(port) > 0)
        running.stop()


def test_an_agent_that_was_given_everything_keeps_what_it_needs_and_says_so(tmp_path: Path) -> None:
    with Emulator([H100]) as emulator, agent([], tmp_path, emulator) as (running, port):
        assert sets_of(running.process.pid) == {(ALL, ALL, ALL, "1")}
        running.wait_log("capabilities")
        (said,) = [json.loads(line) for line in running.log.splitlines() if "capabilities" in line]
        assert (said["event"], said["kept"]) == ("capabilities", sorted(NAMES))
        emulator.spawn(["count", "--rounds", "23", "--host-threads", "3"]).communicate()
        until(lambda: events(port) >= CALLS)
        running.stop()


@pytest.mark.parametrize("lacking", NEEDED, ids=NAMES)
def test_the_doctor_names_each_capability_that_is_missing_and_what_it_is_for(lacking: object) -> None:
    rest = [one.name for one in NEEDED if one is not lacking]
    command = [*with_capabilities(rest, STRANGER), *COMMAND, "doctor", "--json", "--no-load"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "services")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for one in NEEDED:
        check = checks[f"CAP_{one.name}"]
        assert check["ok"] is (one is not lacking)
        assert check["required"] is one.required
    found = checks[f"CAP_{lacking.name}"]  # type: ignore[attr-defined]
    assert lacking.without in found["detail"]  # type: ignore[attr-defined]
    assert "securityContext" in found["remedy"]


def test_this_machine_can_tell_one_from_the_other() -> None:
    assert {one.number for one in NEEDED} < effective()


COMPOSE = ROOT / "docker-compose.yml"
MADE = re.compile(r"install -d ((?:-\w \S+ )*)(/\S+)")


def stages_of_the_image() -> dict[str, str]:
    """The steps of each stage of deploy/Dockerfile with those of the stages that it stands on."""
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    found: dict[str, str] = {}
    for base, name, steps in re.findall(r"^FROM (\S+) AS (\S+)\n((?:(?!^FROM ).*\n?)*)", text, re.MULTILINE):
        found[name] = found.get(base, "") + steps
    return found


@pytest.mark.parametrize("stage", ["service", "agent"])
def test_an_image_has_a_directory_that_its_user_can_write_to(stage: str, place: Path) -> None:
    """A new volume takes owner and mode from it, and root has no CAP_DAC_OVERRIDE."""
    steps = stages_of_the_image()[stage]
    user = int(re.findall(r"^USER (\d+):", steps, re.MULTILINE)[-1])
    made = MADE.findall(steps)
    assert made
    for options, directory in made:
        subprocess.run(["install", *options.split(), "-d", f"{place}{directory}"], check=True)
        for above in Path(f"{place}{directory}").parents[:2]:
            above.chmod(0o755)
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    names = services["agent"]["cap_add"] if stage == "agent" else []
    command = [*with_capabilities(names, user), "touch", f"{place}{made[-1][1]}/file"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
