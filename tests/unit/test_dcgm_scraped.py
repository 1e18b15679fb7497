"""dcgm-exporter's text after scrapers, relays and users had their hands on it."""

from __future__ import annotations

import pytest

from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.exposition import ExpositionSample

GPU = "GPU-1f83cb94-9ac5-4ddb-9ba9-e6da50d87cda"
OTHER = "GPU-72aea9ce-3c48-41af-95b9-570bcc62e539"
UTIL, ENGINE, USED = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"
SM = "DCGM_FI_PROF_SM_ACTIVE"
SCRAPER = 'instance="10.0.0.7:9400",job="dcgm",namespace="gpu-operator",pod="{}",container="exporter"'


def line(field: str, value: object, more: str = "", uuid: str = GPU) -> str:
    return f'{field}{{gpu="0",UUID="{uuid}",Hostname="n"{"," if more else ""}{more}}} {value}'


def only(text: str) -> ExpositionSample:
    exposition = parse_exposition(text)
    assert exposition.skipped_lines == 0
    (sample,) = exposition.samples
    return sample


@pytest.mark.parametrize("name", ["dcgm-exporter-x", "metrics-7f"])
def test_where_one_line_has_exported_labels_the_plain_ones_are_the_scrapers(name: str) -> None:
    """An idle GPU has no pod of its own: its pod= is then the exporter's, which holds nothing."""
    scraper = SCRAPER.format(name)
    held = f'{scraper},exported_namespace="ml",exported_pod="train-0",exported_container="main"'
    found = parse_exposition(f"{line(UTIL, 5, held)}\n{line(UTIL, 0, scraper, OTHER)}\n")
    assert [(s.uuid, s.namespace, s.pod, s.container) for s in found.samples] == [
        (GPU, "ml", "train-0", "main"),
        (OTHER, None, None, None),
    ]
    assert [(h.uuid, h.pod) for h in found.holders] == [(GPU, "train-0")]


def test_where_every_gpu_is_idle_the_exporters_own_pod_holds_none() -> None:
    found = parse_exposition(line(UTIL, 0, SCRAPER.format("nvidia-dcgm-exporter-abcde")))
    assert (found.holders, found.samples[0].pod) == ((), None)


def test_the_pod_of_lines_that_are_no_gpus_is_the_scrapers_whatever_it_is_called() -> None:
    """With honor_labels the scraper's labels stand where the exporter has none."""
    scraper = SCRAPER.format("metrics-7f")
    held = 'instance="10.0.0.7:9400",job="dcgm",namespace="ml",pod="train-0",container="main"'
    text = f"{line(UTIL, 5, held)}\n{line(UTIL, 0, scraper, OTHER)}\ngo_goroutines{{{scraper}}} 12\n"
    assert [(h.uuid, h.pod) for h in parse_exposition(text).holders] == [(GPU, "train-0")]


def test_a_pod_that_is_only_called_like_an_exporter_holds_what_the_exporter_says() -> None:
    assert only(line(UTIL, 5, 'namespace="ml",pod="dcgm-exporter-tests"')).pod == "dcgm-exporter-tests"


@pytest.mark.parametrize(
    ("written", "time_ms"),
    [
        ("1.7e+09", 1_700_000_000_000),
        ("1.712345678123e+09", 1_712_345_678_123),
        ("1712345678.1", 1_712_345_678_100),
        ("1712345678", 1_712_345_678_000),
        ("1712345678000", 1_712_345_678_000),
        ("1e300", None),
        ("-5", None),
        ("1-2", None),
    ],
)
def test_the_time_of_a_line_is_read_in_every_notation_and_never_costs_the_line(
    written: str, time_ms: int | None
) -> None:
    found = parse_exposition(f"{line(ENGINE, 0.5)} {written}")
    assert ([s.value for s in found.samples], found.time_ms) == ([0.5], time_ms)


@pytest.mark.parametrize(
    ("field", "value", "believed"),
    [(SM, 1.07, 1.0), (SM, 1.5, 1.0), (ENGINE, 1.0000001, 1.0), (UTIL, 101, 100.0), (UTIL, 104.9, 100.0)],
)
def test_a_little_above_all_is_all_and_is_counted(field: str, value: float, believed: float) -> None:
    found = parse_exposition(f"{line(field, value)}\n{line(USED, 200)}")
    assert ([s.value for s in found.samples], found.cut_values) == ([believed, 200.0], 1)


@pytest.mark.parametrize(
    "label",
    [
        'hpc_job="x"} 99 # "',
        'hpc_job="x"} 99 # {a="b"',
        'hpc_job="x"} 99 # {} 1 # "',
        'hpc_job="x"} 99"',
        'hpc_job="x"} 99 1712345678000 "',
        'pod="}{"',
        'pod="{}"',
        'pod="}"',
        'pod="} 99"',
    ],
)
def test_no_label_is_taken_for_the_value(label: str) -> None:
    assert only(line(ENGINE, 0.25, label)).value == 0.25


@pytest.mark.parametrize(
    "written", [GPU.removeprefix("GPU-"), GPU.upper(), GPU.lower(), GPU.removeprefix("GPU-").upper()]
)
def test_a_uuid_is_written_as_nvml_writes_it(written: str) -> None:
    assert only(line(ENGINE, 0.5, uuid=written)).uuid == GPU


def test_pods_of_equal_memory_stay_apart_where_the_exporter_measures_them_apart() -> None:
    """Without the device's line equal values could be copies; another field of the node tells."""
    pods = [line(USED, 512, f'pod="{pod}"') for pod in "ab"]
    apart = [line(UTIL, value, f'pod="{pod}"') for pod, value in (("a", 10), ("b", 60))]
    found = parse_exposition("\n".join([*pods, *apart])).samples
    assert [(s.field, s.pod, s.value) for s in found] == [
        (USED, "a", 512.0),
        (USED, "b", 512.0),
        (UTIL, "a", 10.0),
        (UTIL, "b", 60.0),
    ]


def test_pods_of_equal_memory_are_copies_where_nothing_says_otherwise() -> None:
    assert only("\n".join(line(USED, 512, f'pod="{pod}"') for pod in "ab")).pod is None


def test_a_line_of_any_length_takes_linear_time() -> None:
    for piece in ('"}', '"} 9 ', "{", "}", '#{a="b"} ', '",a="'):
        text = f'{ENGINE}_total{{UUID="{GPU}",x="' + piece * 50_000
        parse_exposition(text)
        assert parse_exposition(f'{text}"}} 0.5').samples[0].value == 0.5
