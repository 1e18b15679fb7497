"""Scrapes of dcgm-exporter become samples with units, intervals and reasons."""

from __future__ import annotations

import pytest

from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.samplers.combined import CombinedSampler
from gpuledger.agent.samplers.exporter_readings import ExporterReadings
from gpuledger.agent.samplers.samples import Gap, Round, Sample
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device
from tests.support.agent import S, uuid

GPU = uuid(0)
MIG = "MIG-00000001-0000-0000-0000-000000000000"
DEVICES = [
    Device(uuid=GPU, index=0),
    Device(uuid=MIG, index=0, parent_uuid=GPU, gpu_instance=7, compute_instance=0),
]
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
XID = "DCGM_FI_DEV_XID_ERRORS"
ELAPSED, ACTIVE = "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL", "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL"
UTIL = "DCGM_FI_DEV_GPU_UTIL"


class Line:
    """The readings of one exporter, scraped every 10 s from 0 on."""

    def __init__(self) -> None:
        self._readings = ExporterReadings(DEVICES)
        self._at = 0

    def take(self, values: dict[str, object], more: str = "") -> tuple[list[Sample], list[Gap]]:
        text = "".join(f'{field}{{UUID="{GPU}"{more}}} {value}\n' for field, value in values.items())
        return self.text(text)

    def text(self, text: str) -> tuple[list[Sample], list[Gap]]:
        start, self._at = self._at, self._at + 10 * S
        return self._readings.take(parse_exposition(text), start, self._at)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected", "length_ns"),
    [
        (UTIL, 37, Field.GPU_UTILIZATION, 0.37, 10 * S),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 37, Field.GPU_UTILIZATION, 0.37, 10 * S),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 5, Field.MEMORY_COPY_UTILIZATION, 0.05, 10 * S),
        (ENGINE, 0.714, Field.ENGINE_ACTIVE, 0.714, 10 * S),
        ("DCGM_FI_PROF_SM_ACTIVE", 1.07, Field.SM_ACTIVE, 1.0, 10 * S),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.25, Field.TENSOR_ACTIVE, 0.25, 10 * S),
        ("DCGM_FI_DEV_FB_USED", 12, Field.FRAMEBUFFER_USED_BYTES, 12 << 20, 0),
        ("DCGM_FI_DEV_POWER_USAGE", 311.5, Field.POWER_WATTS, 311.5, 0),
        ("DCGM_FI_DEV_SM_CLOCK", 1980, Field.SM_CLOCK_HZ, 1.98e9, 0),
        ("DCGM_FI_DEV_GPU_TEMP", 55, Field.TEMPERATURE_CELSIUS, 55, 0),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", 1_000_000, Field.PCIE_RX_BYTES, 10_000_000, 10 * S),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", 7, Field.NVLINK_TX_BYTES, 70, 10 * S),
    ],
)
def test_a_value_has_the_contracts_unit_and_says_for_how_long_it_speaks(
    name: str, value: object, field: Field, expected: float, length_ns: int
) -> None:
    (sample,) = Line().take({name: value})[0]
    assert sample[:4] == (GPU, None, field, SampleSource.DCGM_EXPORTER)
    assert sample.value == pytest.approx(expected)
    assert (sample.start_ns + sample.duration_ns, sample.duration_ns) == (10 * S, length_ns)


def test_energy_is_the_growth_between_two_scrapes_also_over_one_that_lacked_it() -> None:
    line = Line()
    assert line.take({ENERGY: 5_000_000})[0] == []
    line.take({})
    (sample,) = line.take({ENERGY: 5_007_000})[0]
    assert sample == (GPU, None, Field.ENERGY_JOULES, SampleSource.DCGM_EXPORTER, 10 * S, 20 * S, 7.0)


def test_a_counter_that_began_anew_is_a_gap_and_counts_on_from_there() -> None:
    """dcgm-exporter#417: 5000 J, 4 J, 6 J. The fall is a reset: a gap, never -4996 J; then 6 - 4 = 2 J."""
    line = Line()
    line.take({ENERGY: 5_000_000})
    samples, gaps = line.take({ENERGY: 4_000})
    assert samples == []
    assert (GPU, Field.ENERGY_JOULES, SampleSource.DCGM_EXPORTER, 10 * S, 10 * S, "reset") in gaps
    (sample,) = line.take({ENERGY: 6_000})[0]
    assert sample.value == 2.0


def test_activity_from_cycle_counters_is_exact_and_takes_the_place_of_the_mean() -> None:
    line = Line()
    line.take({ELAPSED: 1_000, ACTIVE: 100})
    samples, _ = line.take({ELAPSED: 3_000, ACTIVE: 600, "DCGM_FI_PROF_SM_ACTIVE": 0.9})
    assert [(s.field, s.value) for s in samples] == [(Field.SM_ACTIVE, 0.25)]
    samples, gaps = line.take({ELAPSED: 500, ACTIVE: 50})
    assert (samples, [gap.reason for gap in gaps if gap.field is Field.SM_ACTIVE]) == (
        [],
        ["absent", "reset"],
    )


def test_activity_is_not_known_where_the_active_cycles_alone_began_anew() -> None:
    line = Line()
    line.take({ELAPSED: 1_000, ACTIVE: 900})
    samples, gaps = line.take({ELAPSED: 3_000, ACTIVE: 100})
    assert (samples, [gap.reason for gap in gaps if gap.field is Field.SM_ACTIVE]) == ([], ["reset"])
    (sample,) = line.take({ELAPSED: 4_000, ACTIVE: 350})[0]
    assert sample.value == 0.25


def test_a_value_that_is_none_is_a_gap_and_not_zero() -> None:
    samples, gaps = Line().take({UTIL: 4294967295, ENGINE: "NaN"})
    assert samples == []
    blank = {gap.field: gap for gap in gaps if gap.reason == "blank"}
    assert set(blank) == {Field.GPU_UTILIZATION, Field.ENGINE_ACTIVE}
    assert blank[Field.ENGINE_ACTIVE][:1] + blank[Field.ENGINE_ACTIVE][3:5] == (GPU, 0, 10 * S)


def test_groups_that_take_turns_each_speak_for_their_own_time_alone() -> None:
    line = Line()
    line.take({ENGINE: 0.5})
    samples, gaps = line.take({"DCGM_FI_PROF_DRAM_ACTIVE": 0.1})
    assert [(s.field, s.start_ns, s.duration_ns) for s in samples] == [(Field.DRAM_ACTIVE, 10 * S, 10 * S)]
    assert Gap(GPU, Field.ENGINE_ACTIVE, SampleSource.DCGM_EXPORTER, 10 * S, 10 * S, "absent") in gaps
    samples, gaps = line.take({ENGINE: 0.7})
    assert [(s.field, s.start_ns, s.value) for s in samples] == [(Field.ENGINE_ACTIVE, 20 * S, 0.7)]
    assert [(gap.field, gap.reason) for gap in gaps] == [(Field.DRAM_ACTIVE, "absent")]


def test_a_profiling_field_that_is_not_exported_is_said_once() -> None:
    line = Line()
    reasons = [[(g.field, g.reason) for g in line.take({UTIL: 5})[1]] for _ in range(2)]
    assert reasons == [[(Field.ENGINE_ACTIVE, "not_exported"), (Field.SM_ACTIVE, "not_exported")], []]


def test_an_old_error_that_stays_on_show_is_no_new_one() -> None:
    line = Line()
    assert line.take({XID: 31})[0] == []
    assert line.take({XID: 31})[0] == []
    (sample,) = line.take({XID: 79})[0]
    assert (sample.field, sample.value, sample.start_ns) == (Field.XID, 79.0, 20 * S)
    assert line.take({XID: 0})[0] == []


def test_a_slice_gets_the_uuid_by_which_nvml_knows_it() -> None:
    line = Line()
    assert [s.device for s in line.take({ENGINE: 0.5}, ',GPU_I_ID="7",GPU_I_PROFILE="1g.11gb"')[0]] == [MIG]
    samples, gaps = line.take({ENGINE: 0.5}, ',GPU_I_ID="9"')
    assert samples == []
    assert [gap.reason for gap in gaps] == ["unknown_instance"]


def test_a_value_of_an_instance_that_several_compute_instances_share_is_none_of_theirs() -> None:
    """It can not be split between them, and is not the first one's."""
    second = Device(uuid=f"{MIG}-1", index=0, parent_uuid=GPU, gpu_instance=7, compute_instance=1)
    readings = ExporterReadings([*DEVICES, second])
    text = f'{ENGINE}{{UUID="{GPU}",GPU_I_ID="7"}} 0.5\n'
    samples, gaps = readings.take(parse_exposition(text), 0, 10 * S)
    assert (samples, [gap.reason for gap in gaps]) == ([], ["unknown_instance"])


def test_an_exporter_of_another_node_measures_nothing_here() -> None:
    samples, gaps = Line().text(f'{UTIL}{{UUID="{uuid(9)}"}} 50\n')
    assert (samples, [gap.reason for gap in gaps]) == ([], ["unknown_device"])


def test_the_utilisation_of_single_pods_is_not_the_devices() -> None:
    per_pod = "".join(f'{UTIL}{{UUID="{GPU}",pod="p{n}"}} {n}\n' for n in (33, 66))
    line = Line()
    assert line.text(per_pod)[0] == []
    assert [s.value for s in line.text(per_pod + f'{UTIL}{{UUID="{GPU}"}} 99\n')[0]] == [0.99]


class Stated:
    """A sampler that gives what it was told."""

    def __init__(self, *rounds: Round) -> None:
        self._rounds = list(rounds)

    def sample(self) -> Round:
        return self._rounds.pop(0)

    def rebase(self, time: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_an_exporter_adds_only_what_nvml_does_not_measure_and_all_of_it_while_nvml_is_away() -> None:
    def of(field: Field, source: SampleSource, start: int, length: int = S) -> Sample:
        return Sample(GPU, None, field, source, start, length, 0.5)

    nvml = [of(Field.GPU_UTILIZATION, SampleSource.NVML, 9 * S)]
    dcgm = [
        of(field, SampleSource.DCGM_EXPORTER, 0, 10 * S)
        for field in (Field.GPU_UTILIZATION, Field.ENGINE_ACTIVE)
    ]
    later = [of(Field.GPU_UTILIZATION, SampleSource.DCGM_EXPORTER, 10 * S, 10 * S)]
    combined = CombinedSampler(
        Stated(Round(10 * S, samples=list(nvml)), Round(20 * S, lost=frozenset({GPU}))),
        Stated(Round(10 * S, samples=list(dcgm)), Round(20 * S, samples=list(later))),
    )
    first, second = combined.sample(), combined.sample()
    assert [(s.field, s.source) for s in first.samples] == [
        (Field.GPU_UTILIZATION, SampleSource.NVML),
        (Field.ENGINE_ACTIVE, SampleSource.DCGM_EXPORTER),
    ]
    assert second.samples == later
    assert (second.through_ns, second.lost) == (20 * S, frozenset({GPU}))
