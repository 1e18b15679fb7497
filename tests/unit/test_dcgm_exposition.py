"""dcgm-exporter's text, in every shape seen in the field: ids, hosts and pods are synthetic."""

from __future__ import annotations

import pytest

from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.dcgm_fields import aliases
from gpuledger.agent.exposition import ExpositionSample

GPU = "GPU-1f83cb94-9ac5-4ddb-9ba9-e6da50d87cda"
OTHER = "GPU-72aea9ce-3c48-41af-95b9-570bcc62e539"
HEAD = (
    f'gpu="0",UUID="{GPU}",pci_bus_id="00000000:8D:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'
)
UTIL, ENGINE, USED = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"
CYCLES = "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL"


def line(field: str, value: object, more: str = "", head: str = HEAD) -> str:
    return f"{field}{{{head}{',' if more else ''}{more}}} {value}"


def only(text: str) -> ExpositionSample:
    exposition = parse_exposition(text)
    assert exposition.skipped_lines == 0
    (sample,) = exposition.samples
    return sample


def value_of(field: str, value: object) -> float | None:
    return only(line(field, value)).value


def test_allocated_and_free_gpus_each_have_their_value_and_the_pod_that_is_named() -> None:
    pod = 'Hostname="node-a",DCGM_FI_DRIVER_VERSION="550.144.03",container="c",namespace="default",pod="p"'
    free = HEAD.replace(GPU, OTHER).replace('gpu="0"', 'gpu="1"')
    found = parse_exposition(
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        + "\n".join([line(UTIL, 37, pod), line(UTIL, 0, 'Hostname="node-a"', free)])
    )
    assert found.samples == (
        (GPU, None, UTIL, 37.0, "default", "p", "c"),
        (OTHER, None, UTIL, 0.0, None, None, None),
    )
    assert found.skipped_lines == 0


def test_slices_of_one_gpu_are_told_apart_by_their_instance_and_never_by_the_profile() -> None:
    text = "\n".join(
        [
            line(ENGINE, "0.250000", 'GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",namespace="ml",pod="embedding-0"'),
            line(ENGINE, "0.500000", 'GPU_I_PROFILE="1g.10gb",GPU_I_ID="8"'),
            line(ENGINE, "0.750000"),
            line(USED, 12, 'GPU_I_PROFILE="1g.11gb",GPU_I_ID="7"'),
        ]
    )
    assert [(s.gpu_instance, s.field, s.value, s.pod) for s in parse_exposition(text).samples] == [
        (7, ENGINE, 0.25, "embedding-0"),
        (8, ENGINE, 0.5, None),
        (None, ENGINE, 0.75, None),
        (7, USED, 12.0, None),
    ]


def test_a_device_without_instances_has_none_whatever_number_stands_for_it() -> None:
    assert only(line(ENGINE, 0.5, 'GPU_I_PROFILE="",GPU_I_ID="4294967295"')).gpu_instance is None
    assert only(line(ENGINE, 0.5, 'GPU_I_ID=""')).gpu_instance is None


def test_a_device_value_that_is_copied_to_each_pod_that_shares_it_is_one_value_of_no_pod() -> None:
    """dcgm-exporter PR#594, #587: three pods carry the device's 0.714. It is one value, 0.714, not 2.142."""
    copies = [line(ENGINE, 0.714, f'pod="gpu-workload-{n}",vgpu="{n}"') for n in range(3)]
    assert only("\n".join(copies)) == (GPU, None, ENGINE, 0.714, None, None, None)


def test_a_pod_with_several_slots_stays_the_pod_of_the_one_value() -> None:
    copies = [line(ENGINE, 0.3, f'pod="alone",namespace="n",vgpu="{slot}"') for slot in range(3)]
    assert only("\n".join(copies)) == (GPU, None, ENGINE, 0.3, "n", "alone", None)


def test_a_pods_time_slices_are_told_apart_by_their_number() -> None:
    lines = [line(ENGINE, 0.3, f'pod="w",namespace="n",vgpu="{slot}"') for slot in (0, 3)]
    found = parse_exposition("\n".join([*lines, line(USED, 1, 'pod="w",namespace="n"')])).holders
    assert [(one.pod, one.slot) for one in found] == [("w", 0), ("w", 3), ("w", None)]


def test_a_pod_label_may_come_before_all_others() -> None:
    assert only(f'{ENGINE}{{pod="w",gpu="0",vgpu="0",UUID="{GPU}"}} 0.714').pod == "w"


def test_utilisation_split_by_process_stays_split_beside_the_value_of_the_device() -> None:
    lines = [line(UTIL, 99)]
    lines += [line(UTIL, n * 33, f'pod="w-{n}",pod_uid="u{n}",vgpu="{n - 1}"') for n in (1, 2)]
    lines += [line(ENGINE, 0.9), *(line(ENGINE, 0.9, f'pod="w-{n}",vgpu="{n}"') for n in (1, 2))]
    found = parse_exposition("\n".join(lines)).samples
    assert [(s.field, s.pod, s.value) for s in found] == [
        (UTIL, None, 99.0),
        (UTIL, "w-1", 33.0),
        (UTIL, "w-2", 66.0),
        (ENGINE, None, 0.9),
    ]
    device = {s.field: s.value for s in found if s.pod is None}
    assert device == {UTIL: 99.0, ENGINE: 0.9}


def test_idle_pods_split_by_process_are_not_taken_for_copies() -> None:
    found = parse_exposition("\n".join([line(USED, 0), line(USED, 0, 'pod="a"'), line(USED, 0, 'pod="b"')]))
    assert [s.pod for s in found.samples] == [None, "a", "b"]


def test_pods_that_differ_without_a_line_of_the_device_say_nothing_of_the_device() -> None:
    found = parse_exposition("\n".join([line(UTIL, 30, 'pod="a"'), line(UTIL, 60, 'pod="b"')]))
    assert [(s.pod, s.value) for s in found.samples] == [("a", 30.0), ("b", 60.0)]


def test_a_copy_without_a_value_does_not_hide_the_value() -> None:
    blank = line("DCGM_FI_DEV_POWER_USAGE", 140737488355328.0, 'pod="a"')
    assert only("\n".join([blank, line("DCGM_FI_DEV_POWER_USAGE", 311.5, 'pod="b"')])).value == 311.5


def test_xid_counts_by_code_are_series_of_their_own() -> None:
    counts = [line("DCGM_EXP_XID_ERRORS_COUNT", n, f'window_size_in_ms="1000",xid="{n}"') for n in (31, 43)]
    assert [s.value for s in parse_exposition("\n".join(counts)).samples] == [31.0, 43.0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((UTIL, value) for value in (4294967295, 2147483632, 2147483635, 1000, 37100, 200000, -1)),
        (UTIL, "9223372036854775794"),
        *((ENGINE, value) for value in (140737488355328.0, 140737488355331.0, "1.40737488355328e+16")),
        (ENGINE, 71.4),
        *((USED, value) for value in (17592186044415, 2147483632, 9223372036854775792)),
        ("DCGM_FI_DEV_POWER_USAGE", 140737488355330.0),
        ("DCGM_FI_DEV_POWER_USAGE", 25000),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 9223372036854775792),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", 9223372036854775792),
        ("DCGM_FI_PROF_NVLINK_RX_BYTES", "1.5e15"),
        ("DCGM_FI_DEV_GPU_TEMP", 2147483633),
        ("DCGM_FI_DEV_SM_CLOCK", 2147483632),
        ("DCGM_FI_DEV_XID_ERRORS", 2147483632),
        ("DCGM_FI_DEV_SOMETHING_NEW", 18446744073709551615),
        *((UTIL, value) for value in ("NaN", "+Inf", "-Inf", "1e999", "N/A", "<<<NOT_SUPPORTED>>>")),
    ],
)
def test_what_is_no_measurement_is_missing_and_never_a_number(field: str, value: object) -> None:
    assert value_of(field, value) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (UTIL, 100.0),
        (UTIL, 0.0),
        (USED, 81559.0),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 4.2e15),
        ("DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", 1.6e14),
        ("DCGM_FI_DEV_GPU_TEMP", 34.0),
        ("DCGM_FI_DEV_XID_ERRORS", 79.0),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 57.0),
    ],
)
def test_a_measurement_stays_what_it_is(field: str, value: float) -> None:
    assert value_of(field, value) == value


@pytest.mark.parametrize(
    ("canonical", "classic"),
    [
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", UTIL),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_POWER_USAGE"),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", ENGINE),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        ("DCGM_FI_DEV_XID_ERROR", "DCGM_FI_DEV_XID_ERRORS"),
    ],
)
def test_a_field_has_its_classic_name_whatever_the_exporter_calls_it(canonical: str, classic: str) -> None:
    assert only(line(canonical, 1)).field == classic


def test_every_renamed_field_is_known() -> None:
    assert len(aliases()) == 295
    for canonical, classic in aliases().items():
        assert only(line(canonical, 1)).field == classic


def test_a_suffix_that_a_relay_added_is_no_part_of_the_name() -> None:
    assert only(line("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total", 5)).field.endswith("_CONSUMPTION")
    assert only(line("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 5)).field.endswith("_TOTAL")


def test_the_utilisation_that_is_called_a_ratio_is_a_percentage_still() -> None:
    assert value_of("DCGM_FI_DEV_GPU_UTIL_RATIO", 87) == 87.0


def test_the_namespace_of_the_first_exporters_is_understood() -> None:
    labels = f'gpu="0",uuid="{GPU}",device="nvidia0",pod_name="p",pod_namespace="n",container_name="c"'
    text = f"dcgm_gpu_utilization{{{labels}}} 42\ndcgm_fi_prof_gr_engine_active{{{labels}}} 0.5\n"
    text += f"dcgm_power_usage{{{labels}}} 60.1\ndcgm_fb_used{{{labels}}} 1024\n"
    found = parse_exposition(text)
    assert [(s.field, s.value) for s in found.samples] == [
        (UTIL, 42.0),
        (ENGINE, 0.5),
        ("DCGM_FI_DEV_POWER_USAGE", 60.1),
        (USED, 1024.0),
    ]
    assert {(s.uuid, s.namespace, s.pod, s.container) for s in found.samples} == {(GPU, "n", "p", "c")}


def test_a_federated_scrape_names_the_workload_and_not_the_exporter() -> None:
    labels = 'exported_pod="train-0",exported_namespace="ml",namespace="gpu-operator",pod="exporter-x"'
    sample = only(line(UTIL, 5, labels))
    assert (sample.namespace, sample.pod) == ("ml", "train-0")


@pytest.mark.parametrize(
    "label",
    [
        'note="a "quoted" word"',
        'note="ends with a quote""',
        'note="back\\slash"',
        'note="ends with a backslash\\"',
        'note="escaped \\"quotes\\", pod=\\"evil\\""',
        'note="brace } 5 and {"',
        'note="two\nlines"',
        'note="two\r\nlines\n\n\nand more"',
        'note="bad, pod="evil" here"',
        'err_code="31",err_msg="GPU stopped: "MMU fault", see log\\n"',
    ],
)
def test_a_label_value_that_breaks_the_format_breaks_no_other_value(label: str) -> None:
    text = "\n".join([line(ENGINE, 0.25, f'{label},namespace="n",pod="p"'), line(UTIL, 5)])
    found = parse_exposition(text)
    assert [(s.field, s.value, s.namespace, s.pod) for s in found.samples] == [
        (ENGINE, 0.25, "n", "p"),
        (UTIL, 5.0, None, None),
    ]


def test_lines_of_links_belong_to_their_gpu_and_lines_of_switches_and_processors_to_none() -> None:
    text = f"""DCGM_FI_DEV_NVLINK_BANDWIDTH_L0{{nvlink="0",gpu_uuid="{GPU}",model_name="H100"}} 7
DCGM_FI_DEV_NVLINK_BANDWIDTH_L0{{nvlink="1",gpu_uuid="{GPU}",model_name="H100"}} 9
DCGM_FI_DEV_NVSWITCH_CURRENT_TEMPERATURE{{nvswitch="nvswitch0",Hostname="n"}} 44
DCGM_FI_DEV_CPU_UTIL_TOTAL{{cpu="0",Hostname="n"}} 0.3
DCGM_FI_DEV_CPU_UTIL_TOTAL{{cpucore="3",cpu="0"}} 0.3
go_goroutines 12
process_cpu_seconds_total 1.5e3 1712345678000
scrape_duration{{job="dcgm"}} 0.1"""
    found = parse_exposition(text)
    assert [(s.uuid, s.value) for s in found.samples] == [(GPU, 7.0), (GPU, 9.0)]
    assert found.skipped_lines == 0


def test_timestamps_exemplars_spaces_and_line_ends_of_windows_are_no_obstacle() -> None:
    spaced = f'  {UTIL} {{ gpu = "0" , UUID = "{GPU}" , }}   41 1712345678000'
    exemplar = line(f"{CYCLES}_total", '5 # {trace_id="x"} 1.0 1712345678.1')
    found = parse_exposition(f"{spaced}\r\n{exemplar}\r\n# EOF\r\n")
    assert [(s.field, s.value) for s in found.samples] == [(UTIL, 41.0), (CYCLES, 5.0)]
    assert found.skipped_lines == 0


def test_an_exporter_without_bus_ids_is_as_good() -> None:
    assert only(f'{UTIL}{{gpu="0",UUID="{GPU}",device="nvidia0",modelName="T4"}} 3').value == 3.0


@pytest.mark.parametrize(
    "bad",
    [
        "no metric at all",
        f"{UTIL} 4294967295",
        f'{UTIL}{{gpu="0"}} 5',
        f'{UTIL}{{UUID="{GPU}"}} five',
        f'{UTIL}{{UUID="{GPU}"}}',
        f'{UTIL}{{UUID="{GPU}" 5',
        f'{UTIL}{{UUID="{GPU}',
        f'{ENGINE}{{UUID="{GPU}",GPU_I_ID="seven"}} 0.5',
        f'{{UUID="{GPU}"}} 5',
        f'{UTIL}{{"}} 5',
        f"{UTIL}{{}} 5",
        f'{UTIL}{{,"}} 5',
        f'{UTIL}{{UUID="{GPU}"}} 1_000',
    ],
)
def test_a_bad_line_is_skipped_and_counted_and_its_neighbours_are_read(bad: str) -> None:
    found = parse_exposition("\n".join([line(ENGINE, 0.5), bad, line(USED, 7), "go_goroutines 8"]))
    assert [(s.field, s.value) for s in found.samples] == [(ENGINE, 0.5), (USED, 7.0)]
    assert found.skipped_lines == 1


def test_nothing_is_no_samples() -> None:
    assert parse_exposition("") == parse_exposition("\n\n# nothing here\n")
    assert parse_exposition("").samples == ()


@pytest.mark.parametrize("base", [2147483632, 140737488355328])
def test_a_counter_may_be_as_large_as_a_blank_and_only_the_four_blanks_themselves_are_missing(
    base: int,
) -> None:
    """DCGM_INT32_BLANK and DCGM_FP64_BLANK, then not found, not supported, not permitted."""
    around = [value_of(CYCLES, base + step) for step in range(-1, 5)]
    assert around == [base - 1, None, None, None, None, base + 4]
