"""Which device an ordinal is: the driver's word, the library's, the cluster's, and last the process's own."""

from collections.abc import Mapping

import numpy as np

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.source import HeldDevice, Holders
from gpuledger.agent.names import Names
from gpuledger.agent.ordinals import Visible
from gpuledger.agent.probes.driver import GpuRegistration
from gpuledger.agent.probes.events import DeviceUuid
from gpuledger.agent.process_reader import ProcessFacts
from gpuledger.agent.processes import ProcessTable
from gpuledger.agent.sight import Doubt, Sight
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import Device
from tests.support.agent import MS, POD, S, StatedProcesses, devices, raw, uuid

FOUR = frozenset(range(4))
START = 30 * MS


def sight(
    visible: list[int] | None = None,
    told: Mapping[int, int] | None = None,
    registered: tuple[int, ...] = (),
    opened: tuple[int, ...] = (),
    contexts: tuple[int, ...] = (),
    held: tuple[int, ...] = (),
) -> Sight:
    return Sight(
        there=FOUR,
        visible=None if visible is None else Visible(visible),
        told={ordinal: frozenset({device}) for ordinal, device in (told or {}).items()},
        registered=tuple(frozenset({device}) for device in registered),
        opened=frozenset(opened),
        contexts=frozenset(contexts),
        held=frozenset(held),
    )


def of(one: Sight, *ordinals: int) -> list[int]:
    """The device of each ordinal, as the table has it."""
    found = one.seen().devices
    return [found[n + 1] if n + 1 < len(found) else -1 for n in ordinals]


def test_where_only_the_environment_is_known_it_counts() -> None:
    assert of(sight([2, 0]), 0, 1, 2, -1) == [2, 0, -1, -1]
    assert of(sight([2]), 0, -1) == [2, 2]
    assert not sight([2, 0]).seen().doubts


def test_what_the_library_answered_wins_over_the_environment_which_then_counts_no_more() -> None:
    changed = sight([0, 1], told={0: 3})
    assert of(changed, 0, 1) == [3, -1]
    assert changed.seen().doubts == {Doubt.ENVIRONMENT}
    assert not sight([0, 1], told={1: 1}).seen().doubts


def test_the_one_device_that_was_registered_wins_over_the_environment() -> None:
    changed = sight([0], registered=(2,))
    assert of(changed, 0, -1) == [2, 2]
    assert changed.seen().doubts == {Doubt.ENVIRONMENT}


def test_of_several_registered_devices_the_library_says_which_and_what_nobody_says_is_unknown() -> None:
    assert of(sight(None, told={0: 3}, registered=(1, 3)), 0, 1, -1) == [3, -1, -1]


def test_a_library_that_names_what_the_driver_does_not_know_is_not_believed() -> None:
    assert of(sight(None, told={0: 0}, registered=(1, 3)), 0) == [-1]
    one = sight(None, told={0: 0}, registered=(1,))
    assert of(one, 0) == [1]
    assert one.seen().doubts == {Doubt.LIBRARY}


def test_a_device_that_the_process_has_not_open_is_not_meant() -> None:
    outside = sight([0], opened=(2, 3))
    assert of(outside, 0) == [-1]
    assert outside.seen().doubts == {Doubt.ENVIRONMENT}
    assert of(sight([0], opened=(2,)), 0) == [2]


def test_a_device_that_its_pod_does_not_hold_is_not_meant_unless_the_driver_says_so() -> None:
    assert of(sight([0, 1], held=(2,)), 0) == [2]
    assert of(sight([0, 1], told={0: 1}, held=(2, 3)), 0) == [-1]
    assert of(sight([0, 1], told={0: 1}, held=(2, 3), contexts=(1,)), 0) == [1]
    assert of(sight([0, 1], held=(2,), registered=(1,)), 0) == [1]


def test_a_process_older_than_the_agent_is_on_the_device_on_which_nvml_lists_it() -> None:
    assert of(sight([0, 1], contexts=(1,)), -1) == [1]
    changed = sight([0], contexts=(1,))
    assert of(changed, 0, -1) == [-1, 1]
    assert changed.seen().doubts == {Doubt.ENVIRONMENT}


def test_a_guessed_order_is_a_doubt_until_the_library_has_answered() -> None:
    assert Sight(FOUR, Visible([1, 0], sure=False)).seen().doubts == {Doubt.ORDER}
    told = {0: frozenset({1}), 1: frozenset({0})}
    assert not Sight(FOUR, Visible([1, 0], sure=False), told).seen().doubts


def test_an_answer_that_names_a_divided_gpu_means_the_instance_that_can_be_meant() -> None:
    told = {0: frozenset({2, 3})}
    assert of(Sight(FOUR, Visible([2]), told), 0) == [2]
    assert of(Sight(FOUR, None, told), 0) == [-1]
    assert of(Sight(FOUR, None, told, held=frozenset({3})), 0) == [3]


class Told:
    """A witness whose words are set."""

    def __init__(self) -> None:
        self.uuids: list[DeviceUuid] = []
        self.registered: list[GpuRegistration] = []

    def device_uuids(self) -> list[DeviceUuid]:
        return self.uuids

    def registrations(self) -> list[GpuRegistration]:
        return self.registered


def digits(number: int) -> str:
    return uuid(number).removeprefix("GPU-")


def table(environment: dict[str, str] | None, nodes: list[Device] | None = None) -> tuple[ProcessTable, Told]:
    reader, witness = StatedProcesses(), Told()
    if environment is not None:
        reader.facts[1] = ProcessFacts(START, 7, "", environment)
    return ProcessTable(reader, nodes or devices(), "0123456789abcdef", witness), witness


def device(processes: ProcessTable, **columns: int) -> int:
    return int(processes.resolve(raw(S, **columns), 0)["device"][0])


def test_setenv_in_the_program_is_seen_by_what_the_library_answers() -> None:
    processes, witness = table({"CUDA_VISIBLE_DEVICES": "0"})
    witness.uuids = [DeviceUuid(1, START, 0, digits(1))]
    assert device(processes) == 1
    index = int(processes.resolve(raw(S), 0)["process"][0])
    assert not processes.describe(index, Names(), 0).witnessed, "a doubt is no silent guess"


def test_an_answer_that_comes_later_counts_from_the_next_context_on() -> None:
    processes, witness = table({"CUDA_VISIBLE_DEVICES": "0"})
    assert device(processes) == 0
    witness.uuids = [DeviceUuid(1, START, 0, digits(1))]
    assert device(processes) == 0
    assert device(processes, operation=Operation.RETAIN_PRIMARY_CONTEXT) == 1


def test_a_process_that_was_gone_before_it_was_looked_at_has_the_device_that_it_was_told() -> None:
    processes, witness = table(None)
    assert device(processes) == -1
    witness.uuids = [DeviceUuid(1, START, 0, digits(1), alive=False)]
    processes.witness([])
    witness.uuids = []
    assert device(processes) == 1


def test_a_process_that_was_gone_has_the_one_device_of_its_pod_or_of_its_node() -> None:
    processes, _ = table(None)
    processes.hold(Holders(held=(HeldDevice(POD, DeviceRef(uuid=uuid(1))),)))
    assert device(processes) == 1
    alone, _ = table(None, devices(1))
    assert device(alone) == 0


def test_a_registration_says_the_instance_of_a_divided_gpu() -> None:
    instance = Device(uuid="MIG-0000000a-0000-0000-0000-000000000000", index=1, parent_uuid=uuid(1))
    nodes = [Device(uuid=uuid(0)), Device(uuid=uuid(1), index=1, sharing="mig"), instance]
    processes, witness = table({"CUDA_VISIBLE_DEVICES": "0"}, nodes)
    witness.registered = [GpuRegistration(1, START, digits(1), True, S)]
    assert device(processes) == 2


def test_another_process_with_the_same_pid_inherits_nothing() -> None:
    processes, witness = table(None)
    witness.uuids = [DeviceUuid(1, START, 0, digits(1))]
    found = processes.resolve(np.concatenate([raw(S), raw(S, start_ns=990 * MS)]), 0)["device"]
    assert found.tolist() == [1, -1]
