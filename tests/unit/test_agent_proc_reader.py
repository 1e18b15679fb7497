"""What is read of a real process in /proc, and nothing more."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger.agent.cgroups import CgroupPaths
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.procfs import process_start_ns
from tests.support.waiting import until


@pytest.fixture
def reader() -> ProcReader:
    return ProcReader(CgroupPaths())


def test_the_real_reader_knows_the_file_that_a_process_runs(reader: ProcReader, tmp_path: Path) -> None:
    program = Path(shutil.copy("/bin/sleep", tmp_path / "nvidia-cuda-mps-server"))
    with subprocess.Popen(["another-name", "60"], executable=program) as child:
        program.unlink()
        facts = reader.look(child.pid)
        child.kill()
    assert facts is not None
    assert facts.program == "nvidia-cuda-mps-server"
    reader.close()


def test_the_real_reader_knows_this_process(reader: ProcReader) -> None:
    facts = reader.look(os.getpid())
    assert facts is not None
    assert facts.start_ns == process_start_ns(os.getpid())
    assert facts.name
    assert facts.cgroup_id
    assert reader.cgroup_path(facts.cgroup_id) is not None
    reader.close()


def test_the_real_reader_takes_nothing_but_device_lists_from_an_environment(reader: ProcReader) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "1", "SECRET": "x"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment) as child:
        found: list[ProcessFacts | None] = [None]

        def has_environment() -> bool:  # until it is executed it has this process's
            found[:] = [reader.look(child.pid)]
            return found[0] is not None and bool(found[0].environment)

        until(has_environment)
        assert found[0] is not None
        assert found[0].environment == {"CUDA_VISIBLE_DEVICES": "1"}
        child.communicate(b"\n")
    reader.close()


def test_the_real_reader_tells_the_end_of_a_watched_process(reader: ProcReader) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        reader.watch(child.pid)
        reader.watch(child.pid)
        assert reader.ended() == []
        child.send_signal(signal.SIGKILL)
        child.wait()
        ended: list[int] = []
        until(lambda: ended.extend(reader.ended()) or ended)
        assert ended == [child.pid]
    assert reader.look(child.pid) is None
    reader.watch(child.pid)
    assert reader.ended() == [child.pid], "one that was gone before it was watched"
    reader.close()


def test_the_cgroups_of_v1_are_read_with_all_else(tmp_path: Path) -> None:
    directory = tmp_path / "7"
    directory.mkdir()
    (directory / "stat").write_text(f"7 (a) {' '.join(['S', *['0'] * 18, '12345', '0', '0'])}")
    (directory / "cgroup").write_text("5:devices:/slurm/uid_1000/job_42/step_0\n0::/\n")
    facts = ProcReader(root=tmp_path).look(7)
    assert facts is not None
    assert facts.cgroup1_paths == ("/slurm/uid_1000/job_42/step_0",)
