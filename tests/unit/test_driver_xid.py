"""An error that the driver reports is told once, whoever else tells of it."""

from pathlib import Path

from gpuledger.agent.probes.driver import DriverXid
from gpuledger.agent.samplers.driver_xid import SAME_WITHIN_NS, DriverXids
from gpuledger.agent.samplers.samples import Round, Sample
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device
from tests.support.agent import S, devices, uuid

ADDRESS = "0000:17:00.0"
OFFSET = 1000 * S


def known(directory: Path, nodes: list[Device] | None = None) -> DriverXids:
    place = directory / ADDRESS
    place.mkdir()
    (place / "information").write_text(f"Model:\t\t NVIDIA H100\nIRQ:\t\t 16\nGPU UUID:\t {uuid(1)}\n")
    return DriverXids(nodes or devices(), directory)


def nvml(code: int, device: str, at: int = OFFSET + S) -> Sample:
    return Sample(device, None, Field.XID, SampleSource.NVML, at, S, float(code))


def told(taken: Round) -> list[tuple[str, SampleSource, int, int]]:
    return [(s.device, s.source, s.start_ns, int(s.value)) for s in taken.samples if s.field is Field.XID]


def test_the_gpu_at_that_address_has_it_at_its_own_time(tmp_path: Path) -> None:
    taken = Round(OFFSET + 2 * S)
    known(tmp_path).merge(taken, [DriverXid(S + 7, 79, ADDRESS)], OFFSET)
    assert told(taken) == [(uuid(1), SampleSource.DRIVER, OFFSET + S + 7, 79)]


def test_what_nvml_tells_too_is_the_same_error_in_this_round_and_in_later_ones(tmp_path: Path) -> None:
    xids = known(tmp_path)
    first = Round(OFFSET + 2 * S, [nvml(79, uuid(1)), nvml(31, uuid(0))])
    xids.merge(first, [DriverXid(S, 79, ADDRESS)], OFFSET)
    assert told(first) == [
        (uuid(0), SampleSource.NVML, OFFSET + S, 31),
        (uuid(1), SampleSource.DRIVER, OFFSET + S, 79),
    ]
    later = Round(OFFSET + 3 * S, [nvml(79, uuid(1)), nvml(13, uuid(1))])
    xids.merge(later, [], OFFSET)
    assert [row[3] for row in told(later)] == [13]
    much_later = Round(OFFSET + 2 * S + SAME_WITHIN_NS, [nvml(79, uuid(1))])
    xids.merge(much_later, [], OFFSET)
    assert [row[1] for row in told(much_later)] == [SampleSource.NVML]


def test_nvml_knows_the_instance_of_a_divided_gpu(tmp_path: Path) -> None:
    instance = Device(uuid="MIG-a", parent_uuid=uuid(1), gpu_instance=7)
    xids = known(tmp_path, [Device(uuid=uuid(0)), Device(uuid=uuid(1), sharing="mig"), instance])
    taken = Round(OFFSET + 2 * S, [nvml(43, "MIG-a")])
    xids.merge(taken, [DriverXid(S, 43, ADDRESS)], OFFSET)
    assert told(taken) == [("MIG-a", SampleSource.DRIVER, OFFSET + S, 43)]


def test_two_errors_of_one_code_are_two(tmp_path: Path) -> None:
    taken = Round(OFFSET + 2 * S)
    known(tmp_path).merge(taken, [DriverXid(S, 13, ADDRESS), DriverXid(S + 1, 13, ADDRESS)], OFFSET)
    assert [row[2] for row in told(taken)] == [OFFSET + S, OFFSET + S + 1]


def test_an_address_that_nobody_knows_is_the_only_gpu_or_none(tmp_path: Path) -> None:
    several, alone = known(tmp_path), DriverXids(devices(1), tmp_path)
    for xids, count in ((several, 0), (alone, 1)):
        taken = Round(OFFSET + 2 * S)
        xids.merge(taken, [DriverXid(S, 79, "0000:99:00.0")], OFFSET)
        assert len(told(taken)) == count
