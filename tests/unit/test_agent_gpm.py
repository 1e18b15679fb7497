"""GPM's answer as it is read: one question for all devices, whose metrics are read as columns."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest

from gpuledger.agent.samplers.gpm import GpmReader
from gpuledger.agent.samplers.hygiene import BLANK
from gpuledger.contract.fields import Field

SM, TENSOR = pynvml.NVML_GPM_METRIC_SM_UTIL, pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
PCIE = pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC
MIB = 1 << 20


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, float]]:
    """What the driver says of metrics from now on; the others it leaves as they are."""
    found: dict[int, tuple[int, float]] = {}

    def answer(query: Any) -> None:
        for metric in query.metrics[: query.numMetrics]:
            if metric.metricId in found:
                metric.nvmlReturn, metric.value = found[metric.metricId]

    monkeypatch.setattr(pynvml, "nvmlGpmSampleAlloc", pynvml.c_nvmlGpmSample_t)
    monkeypatch.setattr(pynvml, "nvmlGpmSampleGet", lambda handle, sample: None)
    monkeypatch.setattr(pynvml, "nvmlGpmMetricsGet", answer)
    return found


def read(span_s: float = 2.0) -> dict[Field, float | str]:
    """What a device says that was not read before."""
    reader = GpmReader(None)
    reader.prime()
    return reader.read(span_s)


def test_each_metric_is_read_from_its_own_place(said: dict[int, tuple[int, float]]) -> None:
    said |= {SM: (0, 37.0), TENSOR: (pynvml.NVML_ERROR_NOT_SUPPORTED, 5.0), PCIE: (0, 3.0)}
    found = read()
    assert found[Field.SM_ACTIVE] == pytest.approx(0.37)
    assert found[Field.TENSOR_ACTIVE] == "not_supported"
    assert found[Field.PCIE_TX_BYTES] == 3.0 * MIB * 2.0


def test_a_metric_that_could_not_be_read_is_missing(said: dict[int, tuple[int, float]]) -> None:
    said[SM] = pynvml.NVML_ERROR_UNKNOWN, 37.0
    assert read()[Field.SM_ACTIVE] == BLANK


def test_what_the_driver_leaves_as_it_is_is_not_what_it_said_of_another_device(
    said: dict[int, tuple[int, float]],
) -> None:
    said |= {SM: (0, 37.0), TENSOR: (pynvml.NVML_ERROR_UNKNOWN, 0.0)}
    read()
    said.clear()
    assert {value for field, value in read().items() if field in (Field.SM_ACTIVE, Field.TENSOR_ACTIVE)} == {
        0.0
    }
