"""What a process says of itself, however odd, ends neither the agent nor what is known of others."""

import os
from pathlib import Path

import numpy as np
import pytest

from gpuledger.agent import metrics
from gpuledger.agent.cgroups import CgroupPaths
from gpuledger.agent.coarsen import tally
from gpuledger.agent.devices import DeviceRef, parse_device_id
from gpuledger.agent.events import AGENT_EVENT
from gpuledger.agent.kernel_events import MAX_CALL_SIZE, agent_events
from gpuledger.agent.ordinals import MAX_LISTED, visible_devices
from gpuledger.agent.proc_reader import ProcReader
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.resident import MAX_RESIDENT_BYTES, ResidentMemory
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, encode
from tests.support.agent import CONTAINER, MS, POD_PATH, Bench, S, StatedProcesses, devices, event, raw, uuid

LONG = "9" * 4301  # Python reads no number of more than 4300 digits


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"])
@pytest.mark.parametrize(
    "value", [LONG, f"MIG-{uuid(0)}/{LONG}/0", f"{LONG}:0", f"nvidia{LONG}", f"0,{LONG}", "²", "\udcff", "\0"]
)
def test_no_value_of_a_variable_is_too_odd(variable: str, value: str) -> None:
    found = visible_devices(devices(), {variable: value}, in_container=True)
    assert set(found.positions) <= {0, 1}


@pytest.mark.parametrize(
    "text", [f"nvidia{LONG}", f"gpu-{LONG}", f"{uuid(0)}::{LONG}", f"MIG-{uuid(0)}/{LONG}/0", "nvidia\u0663"]
)
def test_a_device_id_with_a_number_that_no_node_has_says_nothing(text: str) -> None:
    assert parse_device_id("", text) == DeviceRef()


def test_a_list_of_devices_is_read_as_far_as_a_node_can_have_them() -> None:
    text = ",".join(["x"] * MAX_LISTED + [uuid(1)])
    assert visible_devices(devices(), {"NVIDIA_VISIBLE_DEVICES": text}, in_container=True).positions == [0, 1]


class Refusing(StatedProcesses):
    """Of process 2 nothing can be read without an error that nobody thought of."""

    def look(self, pid: int) -> ProcessFacts | None:
        if pid == 2:
            raise ValueError("Exceeds the limit (4300 digits)")
        return super().look(pid)

    def cgroup_path(self, cgroup_id: int) -> str | None:
        if cgroup_id == 9:
            raise OSError(36, "File name too long")
        return super().cgroup_path(cgroup_id)

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        if pid == 2:
            raise ValueError("not enough values to unpack")
        return super().libraries(pid)


def doubts() -> float:
    return metrics.REGISTRY.get_sample_value("gpuledger_agent_device_doubts_total", {"reason": "unread"}) or 0


def test_a_process_that_can_not_be_read_is_doubtful_and_the_others_events_stay() -> None:
    bench = Bench(reader=Refusing())
    before = doubts()
    rows = [raw(S), raw(S + 1, pid=2), raw(S + 2, pid=3, cgroup_id=9), raw(S + 3)]
    events = bench.resolve(*rows)
    assert len(events) == 4
    assert len(set(events["process"].tolist())) == 3
    second, third = (bench.state.describe(int(events["process"][row])) for row in (1, 2))
    assert (second.consumer_kind, second.witnessed) == ("pod", False)
    assert (third.consumer_kind, third.witnessed) == ("host_process", False)
    assert doubts() == before + 2
    bench.table.witness({(1, 1)})
    assert bench.table.of_pid(2) == int(events["process"][1])


def test_the_right_that_the_agent_itself_lacks_is_said_not_passed_over() -> None:
    class Forbidden(StatedProcesses):
        def cgroup_path(self, cgroup_id: int) -> str | None:
            raise PermissionError(1, "Operation not permitted")

    with pytest.raises(PermissionError):
        Bench(reader=Forbidden())


def proc_of(tmp_path: Path, pid: int) -> Path:
    directory = tmp_path / str(pid)
    (directory / "root" / "dev").mkdir(parents=True)
    (directory / "fd").mkdir()
    fields = " ".join(["S", *["0"] * 18, "12345", "0", "0"])
    (directory / "stat").write_text(f"{pid} (a) 1 (b)) {fields}")
    return directory


@pytest.mark.parametrize("name", ["nvidia²", "nvidia٣", "nvidia" + "9" * 240, "nvidia"])
def test_a_node_of_an_odd_name_in_a_container_is_no_device(tmp_path: Path, name: str) -> None:
    directory = proc_of(tmp_path, 7)
    for each in (name, "nvidia1"):
        (directory / "root" / "dev" / each).touch()
    facts = ProcReader(root=tmp_path).look(7)
    assert facts is not None
    assert facts.minors == {1}


def test_files_that_can_not_be_asked_leave_the_rest_of_a_process(tmp_path: Path) -> None:
    directory = proc_of(tmp_path, 7)
    loop = directory / "fd" / "3"
    loop.symlink_to(loop)  # ELOOP, as a file system in user space may answer anything
    (directory / "fd" / "4").symlink_to("x" * 300)  # ENAMETOOLONG
    (directory / "root" / "dev").rmdir()
    (directory / "root" / "dev").symlink_to(directory / "root" / "dev")
    (directory / "maps").write_text(f"7f00-7f01 r-xp 0 00:1 7 /libcuda.so.1\n{'junk ' * 9}/libcuda.so\n")
    (directory / "map_files").symlink_to(directory / "map_files")
    reader = ProcReader(root=tmp_path)
    facts = reader.look(7)
    assert facts is not None
    assert (facts.minors, facts.opened, facts.program) == (frozenset(), frozenset(), "")
    assert reader.libraries(7) == frozenset()


def test_a_cgroup_too_deep_for_a_path_is_its_owners_all_the_same() -> None:
    """A user may nest cgroups deeper than a path is long (PATH_MAX): the outermost part says whose it is."""
    paths = CgroupPaths()
    own = Path(paths.mount) / f"gpuledger-deep-{os.getpid()}"
    own.mkdir()
    start = fd = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
    made: list[int] = [fd]
    try:
        for _ in range(20):
            os.mkdir("d" * 250, dir_fd=fd)
            fd = os.open("d" * 250, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            made.append(fd)
        path = paths.cgroup_path(os.fstat(fd).st_ino)
        assert path is not None
        assert path.startswith(f"/{own.name}/{'d' * 250}/")
    finally:
        for below in reversed(made[:-1]):
            os.rmdir("d" * 250, dir_fd=below)
        for each in made:
            os.close(each)
        own.rmdir()
        paths.close()
    assert start in made


@pytest.mark.parametrize("name", [b"gpuledger-\xff-%d", b"gpuledger-x (deleted)-%d (deleted)"])
def test_a_cgroup_of_an_odd_name_has_a_path_that_can_be_written(name: bytes) -> None:
    paths = CgroupPaths()
    own = os.path.join(os.fsencode(paths.mount), name % os.getpid())  # noqa: PTH118 - a name that is no text
    os.mkdir(own)  # noqa: PTH102
    try:
        path = paths.cgroup_path(os.stat(own).st_ino)  # noqa: PTH116
        assert path is not None
        assert path.startswith("/gpuledger-")
        assert path.encode()
    finally:
        os.rmdir(own)  # noqa: PTH106
        paths.close()


def test_sizes_that_a_library_of_the_processs_own_made_up_are_cut() -> None:
    """A process may bring a libcuda that says yes to anything."""
    rows = np.concatenate([raw(S, Operation.ALLOCATE_DEVICE, bytes=2**62, launched_threads=2**62)] * 4)
    events = agent_events(rows, 0)
    assert events["bytes"].tolist() == [MAX_CALL_SIZE] * 4
    summed = tally(events)
    assert int(summed["bytes"][0]) == 4 * MAX_CALL_SIZE
    many = np.zeros(3, AGENT_EVENT)
    many["bytes"] = 2**62
    assert int(tally(many)["bytes"][0]) == 2**63 - 1


def test_memory_that_no_node_has_can_still_be_written() -> None:
    resident = ResidentMemory()
    for at in range(3):
        resident.apply(event(at, Operation.ALLOCATE_DEVICE, bytes=2**62))
    assert resident.items() == [((0, 0), MAX_RESIDENT_BYTES)]
    resident.set_traced({(0, 0): 2**70, (1, 0): -5})
    assert resident.items() == [((0, 0), MAX_RESIDENT_BYTES)]


def test_a_window_of_a_process_that_lies_about_everything_is_written_whole() -> None:
    bench = Bench()
    bench.reader.paths[9] = f"{POD_PATH}/\ufffd"
    bench.reader.facts[2] = ProcessFacts(30 * MS, 9, "\0\n\ufffd", {"CUDA_VISIBLE_DEVICES": LONG})
    for at in range(3):
        size = {"bytes": 2**64 - 1 - at, "launched_threads": 2**63 - 1}
        bench.cutter.add_events(
            bench.resolve(raw(S + at, Operation.ALLOCATE_DEVICE, pid=2, cgroup_id=9, **size), raw(S + at))
        )
    parts = bench.advance(60 * S)
    assert any(isinstance(part, EventBatch) and len(part.time_ns) for part in parts)
    assert all(encode(part) for part in parts)
    assert CONTAINER in {
        p.container_id for part in parts if isinstance(part, EventBatch) for p in part.processes
    }
