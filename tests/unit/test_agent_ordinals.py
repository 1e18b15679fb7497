"""From the ordinal by which a process counts its devices to the device."""

import pytest

from gpuledger.agent.ordinals import visible_devices
from gpuledger.contract.records import Device
from tests.support.agent import uuid

DEVICES = [Device(uuid=uuid(n), index=n, minor=n) for n in range(4)]


def visible(cuda: str | None = None, nvidia: str | None = None, container: bool = True) -> list[int]:
    environment = {"CUDA_VISIBLE_DEVICES": cuda, "NVIDIA_VISIBLE_DEVICES": nvidia}
    given = {name: value for name, value in environment.items() if value is not None}
    return visible_devices(DEVICES, given, container)


def test_without_variables_a_process_sees_every_device_in_order() -> None:
    assert visible() == [0, 1, 2, 3]


def test_indices_reorder_the_devices() -> None:
    assert visible("3,1") == [3, 1]


@pytest.mark.parametrize(("text", "expected"), [("2,9,0", [2]), ("-1", []), ("", []), ("1,x,0", [1])])
def test_the_list_is_cut_at_the_first_entry_that_names_no_device(text: str, expected: list[int]) -> None:
    assert visible(text) == expected


def test_the_list_is_cut_where_a_device_comes_again() -> None:
    assert visible("1,1,2") == [1]


def test_a_uuid_may_be_any_prefix_that_only_one_device_has() -> None:
    assert visible("GPU-00000002,GPU-00000001-0000") == [2, 1]
    assert visible("GPU-0") == []


def test_indices_count_among_the_devices_that_the_container_was_given() -> None:
    assert visible("1", f"{uuid(1)},{uuid(3)}") == [3]


@pytest.mark.parametrize("word", ["all", "void", "none", ""])
def test_words_that_list_nothing_leave_the_nodes_devices(word: str) -> None:
    assert visible("2", word) == [2]


def test_the_containers_variable_means_nothing_outside_a_container() -> None:
    assert visible("1", uuid(3), container=False) == [1]


def test_device_nodes_in_the_process_s_own_root_say_what_it_was_given() -> None:
    assert visible_devices(DEVICES, {"CUDA_VISIBLE_DEVICES": "0"}, True, minors={2, 3}) == [2]
