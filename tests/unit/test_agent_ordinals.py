"""From the ordinal by which a process counts its devices to the device: what its environment says."""

import pytest

from gpuledger.agent.ordinals import Visible, visible_devices
from gpuledger.contract.records import Device
from tests.support.agent import uuid

DEVICES = [Device(uuid=uuid(n), index=n, minor=3 - n) for n in range(4)]
UNLIKE = [
    Device(uuid=uuid(0), index=0, model="T4", sm_count=40),
    Device(uuid=uuid(1), index=1, model="H100", sm_count=132),
    Device(uuid=uuid(2), index=2, model="T4", sm_count=40),
]
MIG = "MIG-{:08x}-0000-0000-0000-000000000000"


def divided() -> list[Device]:
    """A GPU with two instances between two whole ones."""
    gpu, first, second, third = (Device(uuid=uuid(n), index=n) for n in (0, 1, 1, 2))
    parent = Device(uuid=uuid(1), index=1, sharing="mig")
    for instance, (name, number) in zip((first, second), ((0xA, 7), (0xB, 9)), strict=True):
        instance.uuid, instance.parent_uuid = MIG.format(name), parent.uuid
        instance.gpu_instance, instance.compute_instance = number, 0
    third.uuid = uuid(2)
    return [gpu, parent, first, second, third]


def said(
    cuda: str | None = None,
    nvidia: str | None = None,
    container: bool = True,
    devices: list[Device] = DEVICES,
    order: str | None = None,
) -> Visible:
    environment = {
        "CUDA_VISIBLE_DEVICES": cuda,
        "NVIDIA_VISIBLE_DEVICES": nvidia,
        "CUDA_DEVICE_ORDER": order,
    }
    given = {name: value for name, value in environment.items() if value is not None}
    return visible_devices(devices, given, container)


def visible(cuda: str | None = None, nvidia: str | None = None, container: bool = True) -> list[int]:
    return said(cuda, nvidia, container).positions


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


def test_the_case_of_a_uuid_is_all_one() -> None:
    devices = [Device(uuid="GPU-abcdef00-0000-0000-0000-000000000000", index=0), DEVICES[1]]
    assert said("GPU-ABCDEF", devices=devices).positions == [0]


def test_indices_count_among_the_devices_that_the_container_was_given() -> None:
    assert visible("1", f"{uuid(1)},{uuid(3)}") == [3]


@pytest.mark.parametrize("word", ["all", "void", "none", ""])
def test_words_that_list_nothing_leave_the_nodes_devices(word: str) -> None:
    assert visible("2", word) == [2]


def test_the_containers_variable_means_nothing_outside_a_container() -> None:
    assert visible("1", uuid(3), container=False) == [1]


def test_device_nodes_in_the_process_s_own_root_say_what_it_was_given() -> None:
    seen = visible_devices(DEVICES, {"CUDA_VISIBLE_DEVICES": "0"}, True, minors={1, 2})
    assert seen.positions == [1]


def test_among_unlike_devices_the_fastest_comes_first_and_that_is_a_guess() -> None:
    assert said(devices=UNLIKE) == ([1, 0, 2], False)
    assert said("0", devices=UNLIKE) == ([1], False)
    assert said("0", devices=UNLIKE, order="FASTEST_FIRST") == ([1], False)


def test_nothing_is_guessed_in_the_order_of_the_bus_nor_of_what_is_named() -> None:
    assert said("0", devices=UNLIKE, order="PCI_BUS_ID") == ([0], True)
    assert said(f"{uuid(2)},{uuid(0)}", devices=UNLIKE) == ([2, 0], True)
    assert said("1,0", devices=DEVICES) == ([1, 0], True)
    assert said(nvidia=uuid(2), devices=UNLIKE) == ([2], True)


def test_a_divided_gpu_is_not_seen_and_of_all_instances_one_comes_last() -> None:
    assert said(devices=divided()).positions == [0, 4, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MIG.format(0xB), [3]),
        ("MIG-0000000b", [3]),
        (f"MIG-{uuid(1)}/9/0", [3]),
        (f"MIG-{uuid(1)}/8/0", []),
        (f"{MIG.format(0xB)},{MIG.format(0xA)}", [3]),
        (f"{uuid(2)},{MIG.format(0xA)}", [4, 2]),
        (uuid(1), [2]),
        ("MIG-0000000", []),
    ],
)
def test_an_instance_is_named_in_any_of_its_forms_and_only_one_is_seen(
    text: str, expected: list[int]
) -> None:
    assert said(text, devices=divided()).positions == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [(MIG.format(0xB), [3]), ("1:1", [3]), ("1:0,0", [0, 2]), ("1:5", [0, 4, 2]), ("2", [4])],
)
def test_a_container_is_given_instances_by_uuid_or_by_number(given: str, expected: list[int]) -> None:
    assert said(nvidia=given, devices=divided()).positions == expected
