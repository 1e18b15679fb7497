"""Whose process it is: the kernel's cgroup decides, /proc only describes."""

from pathlib import Path

import numpy as np
import pytest

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.source import HeldDevice, Holders
from gpuledger.agent.names import Names
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.processes import ProcessTable
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Pod
from tests.support.agent import CONTAINER, MS, POD, S, StatedProcesses, devices, raw, uuid


def table(reader: StatedProcesses) -> ProcessTable:
    return ProcessTable(reader, devices(), "0123456789abcdef")


def test_a_process_in_a_pods_cgroup_is_the_pods() -> None:
    processes = table(StatedProcesses())
    index = int(processes.resolve(raw(S), 0)["process"][0])
    names = Names(Holders(pods=(Pod(POD),), container_names={CONTAINER: "main"}))
    record = processes.describe(index, names, 0)
    assert (record.consumer_kind, record.consumer) == ("pod", POD)
    assert (record.container_id, record.container, record.pending) == (CONTAINER, "main", False)


def test_a_pod_that_nobody_named_yet_is_pending() -> None:
    processes = table(StatedProcesses())
    index = int(processes.resolve(raw(S), 0)["process"][0])
    assert processes.describe(index, Names(Holders()), 0).pending
    assert processes.describe(index, Names(), 0).pending


def test_a_process_that_belongs_to_nobody_is_a_host_process_of_its_own() -> None:
    processes = table(StatedProcesses())
    events = processes.resolve(np.concatenate([raw(S, cgroup_id=8), raw(S, cgroup_id=8, pid=2)]), 0)
    consumers = [processes.describe(int(i), Names(), 0) for i in events["process"]]
    assert [c.consumer_kind for c in consumers] == ["host_process", "host_process"]
    assert consumers[0].consumer != consumers[1].consumer
    assert not consumers[0].pending


def test_a_container_outside_pods_is_a_container() -> None:
    reader = StatedProcesses()
    reader.paths[9] = f"/docker/{CONTAINER}"
    processes = table(reader)
    record = processes.describe(int(processes.resolve(raw(S, cgroup_id=9), 0)["process"][0]), Names(), 0)
    assert (record.consumer_kind, record.consumer) == ("container", CONTAINER)


@pytest.mark.parametrize(
    ("path", "kind", "consumer"),
    [
        ("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", "slurm_job", "42"),
        ("/system.slice/jupyter.service", "systemd", "jupyter.service"),
    ],
)
def test_a_job_s_and_a_unit_s_process_is_theirs(path: str, kind: str, consumer: str) -> None:
    reader = StatedProcesses()
    reader.paths[9] = path
    processes = table(reader)
    record = processes.describe(int(processes.resolve(raw(S, cgroup_id=9), 0)["process"][0]), Names(), 0)
    assert (record.consumer_kind, record.consumer, record.pending) == (kind, consumer, False)


def test_what_a_process_says_of_itself_never_decides_who_pays() -> None:
    reader = StatedProcesses()
    lies = {"NVIDIA_VISIBLE_DEVICES": "all", "HOSTNAME": "another-pod", "CUDA_VISIBLE_DEVICES": "1"}
    reader.facts[1] = ProcessFacts(30 * MS, 8, POD, lies)
    processes = table(reader)
    event = processes.resolve(raw(S), 0)[0]
    record = processes.describe(int(event["process"]), Names(), 0)
    assert record.consumer == POD, "the event's cgroup is the pod's, whatever /proc says"
    assert int(event["device"]) == 1, "and the environment tells the device alone"


def test_ordinals_are_devices_of_the_node_and_unknown_ones_stay_unknown() -> None:
    reader = StatedProcesses()
    reader.facts[1] = ProcessFacts(30 * MS, 7, environment={"CUDA_VISIBLE_DEVICES": "1,0"})
    rows = np.concatenate([raw(S, ordinal=o) for o in (0, 1, 2, -1, 63, 200)])
    assert table(reader).resolve(rows, 0)["device"].tolist() == [1, 0, -1, -1, -1, -1]


def test_a_process_that_sees_one_device_can_mean_no_other() -> None:
    reader = StatedProcesses()
    reader.facts[1] = ProcessFacts(30 * MS, 7, environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert table(reader).resolve(raw(S, ordinal=-1), 0)["device"].tolist() == [1]


def test_a_pid_that_is_used_again_is_another_process() -> None:
    processes = table(StatedProcesses())
    rows = np.concatenate([raw(S, start_ns=30 * MS), raw(2 * S, start_ns=990 * MS)])
    first, second = processes.resolve(rows, 0)["process"]
    assert first != second


def test_a_process_that_changes_its_cgroup_changes_its_consumer() -> None:
    processes = table(StatedProcesses())
    rows = np.concatenate([raw(S, cgroup_id=8), raw(2 * S, cgroup_id=7)])
    found = processes.resolve(rows, 0)["process"]
    kinds = [processes.describe(int(i), Names(), 0).consumer_kind for i in found]
    assert kinds == ["host_process", "pod"]


def test_the_driver_s_pid_and_the_kernel_s_event_name_one_process() -> None:
    reader = StatedProcesses()
    reader.facts[1] = ProcessFacts(30 * MS, 7)
    processes = table(reader)
    assert processes.of_pid(1) == int(processes.resolve(raw(S, start_ns=30 * MS + 123), 0)["process"][0])
    assert processes.of_pid(99) is None


def test_times_of_a_process_are_agent_time() -> None:
    reader = StatedProcesses()
    processes = table(reader)
    index = int(processes.resolve(raw(S), 1000 * S)["process"][0])
    reader.gone = [1]
    assert list(processes.note_ends(5 * S)) == [index]
    record = processes.describe(index, Names(), 1000 * S)
    assert (record.started_ns, record.ended_ns) == (1000 * S + 30 * MS, 1005 * S)


def test_an_ended_process_is_forgotten_once_no_window_can_speak_of_it() -> None:
    reader = StatedProcesses()
    processes = table(reader)
    processes.resolve(raw(S), 0)
    reader.gone = [1]
    processes.note_ends(2 * S)
    assert processes.living(S)
    assert processes.living(3 * S) == []
    processes.resolve(raw(400 * S, pid=2), 0)
    reader.gone = [2]
    processes.note_ends(500 * S)
    assert processes.ended_between(0, 400 * S) == {}


def test_a_silent_context_is_witnessed_where_probes_are_on_all_its_libraries() -> None:
    reader = StatedProcesses()
    reader.facts = {1: ProcessFacts(30 * MS, 7), 2: ProcessFacts(30 * MS, 7)}
    reader.files = {1: frozenset({(1, 10)}), 2: frozenset({(1, 10), (1, 11)})}
    processes = table(reader)
    seen, partly, static = (processes.of_pid(pid) for pid in (1, 2, 99))
    assert static is None
    processes.witness({(1, 10)})
    assert [processes[i].witnessed for i in (seen, partly) if i is not None] == [True, False]


def test_who_is_found_by_his_context_before_his_calls_are_read_is_witnessed_at_once() -> None:
    """A window's keyframe may fall between the driver's word of a new process and its first call's."""
    reader = StatedProcesses()
    reader.facts = {1: ProcessFacts(30 * MS, 7), 2: ProcessFacts(30 * MS, 7)}
    reader.files = {1: frozenset({(1, 10)}), 2: frozenset({(1, 11)})}
    processes = table(reader)
    processes.witness({(1, 10)})
    found = [processes.of_pid(pid) for pid in (1, 2)]
    assert [processes[i].witnessed for i in found if i is not None] == [True, False]


def test_an_argument_that_is_no_size_does_not_become_a_negative_one() -> None:
    rows = np.concatenate([raw(S, bytes=2**64 - 1, duration_ns=2**63), raw(S, bytes=5)])
    events = table(StatedProcesses()).resolve(rows, 0)
    assert (events["bytes"].tolist(), events["duration_ns"].tolist()) == ([0, 5], [0, 5])


def mps_server() -> tuple[ProcessTable, StatedProcesses]:
    reader = StatedProcesses()
    reader.facts[1] = ProcessFacts(30 * MS, 8, "nvidia-cuda-mps", program="nvidia-cuda-mps-server")
    return table(reader), reader


def test_a_process_that_ended_and_is_not_reaped_yet_does_not_come_back_as_another() -> None:
    reader = StatedProcesses()
    reader.facts[1] = ProcessFacts(30 * MS, 7, "process-1")
    processes = table(reader)
    processes.resolve(raw(S, start_ns=30 * MS + 123), 0)
    reader.gone = [1]
    processes.note_ends(2 * S)
    assert processes.of_pid(1) is None, "/proc still tells of a zombie"
    assert len(processes.all) == 1
    reader.facts[1] = ProcessFacts(5 * S, 7, "another with its pid")
    assert processes.of_pid(1) is not None


def test_the_mps_server_is_nobody_s_consumer_beside_its_clients() -> None:
    processes, reader = mps_server()
    reader.facts[2] = ProcessFacts(30 * MS, 7)
    client = processes.of_pid(2)
    assert processes.of_pid(1) is None
    assert processes.of_pid(1) is None, "nor the second time"
    assert [known.index for known in processes.living(S)] == [client]
    contexts = processes.resolve(raw(S, Operation.CREATE_CONTEXT, cgroup_id=8), 0)
    assert [known.index for known in processes.living(S)] == [client], "its own contexts change nothing"
    assert processes.describe(int(contexts["process"][0]), Names(), 0).name == "nvidia-cuda-mps"


def test_what_launches_kernels_of_its_own_is_no_mps_server_whatever_its_name() -> None:
    processes, _ = mps_server()
    launch = processes.resolve(raw(S, cgroup_id=8), 0)
    assert processes.of_pid(1) == int(launch["process"][0])
    assert len(processes.living(S)) == 1


def test_an_mps_server_in_the_pod_that_holds_the_device_works_for_that_pod() -> None:
    processes, reader = mps_server()
    reader.facts[1] = ProcessFacts(30 * MS, 7, program="nvidia-cuda-mps-server")
    processes.hold(Holders(held=(HeldDevice(POD, DeviceRef(uuid=uuid(0))),)))
    index = processes.of_pid(1)
    assert index is not None
    assert processes.describe(index, Names(), 0).consumer == POD


def test_what_a_process_calls_itself_makes_it_no_mps_server(tmp_path: Path) -> None:
    reader = StatedProcesses()
    reader.facts[1] = ProcessFacts(30 * MS, 7, "nvidia-cuda-mps-server", program="train")
    assert table(reader).of_pid(1) is not None


def test_a_job_that_only_cgroup_v1_knows_is_the_jobs() -> None:
    reader = StatedProcesses()
    reader.paths[9] = "/system.slice/slurmd.service"
    reader.facts[1] = ProcessFacts(30 * MS, 9, cgroup1_paths=("/slurm/uid_1000/job_42/step_0",))
    processes = table(reader)
    record = processes.describe(int(processes.resolve(raw(S, cgroup_id=9), 0)["process"][0]), Names(), 0)
    assert (record.consumer_kind, record.consumer) == ("slurm_job", "42")
