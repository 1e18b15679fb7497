"""What a scrape of dcgm-exporter says, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class ExpositionSample(NamedTuple):
    """A value of a device, or of a pod on it.

    ``gpu_instance`` is the MIG instance's number on the GPU ``uuid``, None for the whole GPU. ``field`` is
    the classic DCGM name and ``value`` in DCGM's unit; None: the exporter had none. Of one field of a device,
    the sample without a pod is the device's; where there is but one sample it is the device's, and a pod
    that it names is the only one there.
    """

    uuid: str
    gpu_instance: int | None
    field: str
    value: float | None
    namespace: str | None
    pod: str | None
    container: str | None


class ExportedDevice(NamedTuple):
    """A GPU or MIG instance as the labels describe it; empty, or None, where they do not say. ``number`` is
    the GPU's index on its node."""

    uuid: str
    gpu_instance: int | None
    number: int | None
    model: str
    mig_profile: str
    host: str


class ExportedHolder(NamedTuple):
    """A pod's container that lines of a device name. ``slot`` is the number of the time-slice (the label
    ``vgpu``) that it has there, None where the lines do not say."""

    uuid: str
    gpu_instance: int | None
    namespace: str
    pod: str
    container: str
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class Exposition:
    """One scrape. ``skipped_lines`` counts lines of text that could not be read; ``time_ms`` is the latest
    time that a line states, ms since the Unix epoch, None where none does; ``cut_values`` counts ratios above
    1 and percentages above 100, which are 1 and 100 here."""

    samples: tuple[ExpositionSample, ...]
    skipped_lines: int
    devices: tuple[ExportedDevice, ...] = ()
    holders: tuple[ExportedHolder, ...] = ()
    time_ms: int | None = None
    cut_values: int = 0
