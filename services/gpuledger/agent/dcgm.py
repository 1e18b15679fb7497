"""What dcgm-exporter says, of any version and label set, as samples of devices.

What can not be read is skipped and counted; nothing is ever raised.
Line template: dcgm-exporter, internal/pkg/rendermetrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gpuledger.agent.dcgm_fields import classic_name, clean
from gpuledger.agent.dcgm_lines import (
    BARE,
    NUMBER,
    OPEN,
    UnreadableLine,
    end_of_labels,
    labels_of,
    logical_lines,
    number_of,
)
from gpuledger.agent.exposition import ExportedDevice, ExportedHolder, Exposition, ExpositionSample

NOT_MIG: Final = 0xFFFFFFFF  # NVML's instance number of a device without instances

PER_PROCESS_FIELDS: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"})
"""Fields that exporters from 4.8 on split by process under time-slicing, beside the line of the device."""

_EARLIEST_MS: Final = 1e11  # 1973: a smaller number of a scrape is of seconds
_LATEST_MS: Final = 1e15
_UUID = re.compile(r"(GPU-|MIG-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_UUID_LABELS = ("uuid", "gpu_uuid")
_POD_LABELS = ("pod", "pod_name")
_NAMESPACE_LABELS = ("namespace", "pod_namespace")
_CONTAINER_LABELS = ("container", "container_name")
_EXPORTED_LABELS = ("exported_namespace", "exported_pod", "exported_container")
_OF_SCRAPER = frozenset({"instance", "job"})
"""Labels that a scraper adds, beside those of the exporter's own pod."""
_EXPORTER: Final = "dcgm-exporter"  # in the name of its pods, as its chart and the GPU operator make them
_MODEL_LABELS = ("modelname", "model_name")
_HOST_LABELS = ("hostname", "exported_hostname", "node", "kubernetes_node", "instance")
_OF_NO_GPU = frozenset({"cpu", "cpucore", "nvswitch", "nvlink", "cx", "port"})
"""Lines of processors, switches and network cards carry one of these, and no GPU's UUID."""
_KINDS_OF_ONE_FIELD = ("nvlink", "nvswitch", "xid", "clock_event", "health_watch", "window_size_in_ms")
"""Labels by which several series of one field of one device differ in what they measure."""


class _Workload(NamedTuple):
    namespace: str | None
    pod: str | None
    container: str | None


class _Key(NamedTuple):
    uuid: str
    gpu_instance: int | None
    field: str
    kind: tuple[str | None, ...]


class _Series(NamedTuple):
    key: _Key
    workload: _Workload
    value: float | None
    device: ExportedDevice
    time_ms: int | None
    slot: int | None
    exported: _Workload
    """What the exporter itself said, where a scraper put its own labels in the place."""
    cut: bool
    """Whether the value was above all that there can be."""


class _Line(NamedTuple):
    """A line that is no GPU's, and the pod that it names: the scraper's word for the exporter."""

    pod: tuple[str | None, str | None]


_NOBODY = _Workload(None, None, None)


def parse_exposition(text: str) -> Exposition:
    """The samples of a scrape, in the order of the text. Takes any text, in linear time; raises on none."""
    found: dict[_Key, list[_Series]] = {}
    read: list[_Series] = []
    scraped: set[tuple[str | None, str | None]] = set()
    devices: dict[tuple[str, int | None], ExportedDevice] = {}
    holders: dict[ExportedHolder, None] = {}
    times: set[int] = set()
    skipped = 0
    for lines in logical_lines(text):
        try:
            series = _read(lines)
        except UnreadableLine:
            skipped += len(lines)
            continue
        if isinstance(series, _Series):
            read.append(series)
        elif series is not None:
            scraped.add(series.pod)
    relabelled = any(series.exported != _NOBODY for series in read)
    for series in read:
        if relabelled:
            series = series._replace(workload=series.exported)
        elif series.workload[:2] in scraped:
            series = series._replace(workload=_NOBODY)
        found.setdefault(series.key, []).append(series)
        devices.setdefault(series.key[:2], series.device)
        if series.workload.pod is not None:
            holders[_holder(series)] = None
        if series.time_ms is not None:
            times.add(series.time_ms)
    splits = {series[0].device.host for series in found.values() if _is_split(series)}
    samples = tuple(
        sample for series in found.values() for sample in _merged(series, series[0].device.host in splits)
    )
    latest, cut = max(times, default=None), sum(series.cut for series in read)
    return Exposition(samples, skipped, tuple(devices.values()), tuple(holders), latest, cut)


def _holder(series: _Series) -> ExportedHolder:
    namespace, pod, container = series.workload
    return ExportedHolder(*series.key[:2], namespace or "", pod or "", container or "", series.slot)


def _read(lines: list[str]) -> _Series | _Line | None:
    """The series that the lines state; of one that is no GPU's the pod that it names, None where there is
    none. Raises UnreadableLine."""
    line = "\n".join(lines)
    opened = OPEN.match(line)
    if opened is None:
        bare = BARE.fullmatch(line.strip()) if len(line) < 1024 else None
        if bare is None or classic_name(bare[1]) is not None:
            raise UnreadableLine  # not the format, or a value of DCGM of which nobody knows the device
        number_of(bare[2])
        return None
    closed = end_of_labels(line, opened)
    if closed is None:
        raise UnreadableLine
    end, rest = closed
    value = number_of(rest["value"])
    field = classic_name(opened[1])
    labels = labels_of(line[opened.end() : end])
    names = (_NAMESPACE_LABELS, _POD_LABELS, _CONTAINER_LABELS)
    workload = _Workload(*(_first(labels, aliases) for aliases in names))
    uuid = _first(labels, _UUID_LABELS)
    if field is None or uuid is None:
        if field is not None and _OF_NO_GPU.isdisjoint(labels):
            raise UnreadableLine
        return None if workload.pod is None else _Line(workload[:2])
    if _EXPORTER in (workload.pod or "") and not _OF_SCRAPER.isdisjoint(labels):
        workload = _NOBODY  # who measures holds nothing
    kind = tuple(labels.get(name) for name in _KINDS_OF_ONE_FIELD)
    key = _Key(_normal(uuid), _instance(labels.get("gpu_i_id")), field, kind)
    exported = _Workload(*(labels.get(name) or None for name in _EXPORTED_LABELS))
    cleaned = None if value is None else clean(field, value)
    device = _device(key, labels)
    time_ms, slot = _time_ms(rest["time"]), _small(labels.get("vgpu", ""))
    cut = cleaned is not None and cleaned != value
    return _Series(key, workload, cleaned, device, time_ms, slot, exported, cut)


def _normal(uuid: str) -> str:
    """A UUID as NVML writes it, whatever case it is in, and whether or not GPU- stands before it."""
    match = _UUID.fullmatch(uuid)
    return uuid if match is None else f"{(match[1] or 'GPU-').upper()}{match[2].lower()}"


def _device(key: _Key, labels: dict[str, str]) -> ExportedDevice:
    return ExportedDevice(
        key.uuid,
        key.gpu_instance,
        _small(labels.get("gpu", "")),
        _first(labels, _MODEL_LABELS) or "",
        labels.get("gpu_i_profile", ""),
        _first(labels, _HOST_LABELS) or "",
    )


def _small(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None


def _time_ms(text: str | None) -> int | None:
    """Of ms in Prometheus's format, and of seconds in OpenMetrics, which may be written with an exponent."""
    if not text or not NUMBER.fullmatch(text):
        return None
    number = float(text)
    if not 0 <= number < _LATEST_MS:
        return None
    return round(number * 1000) if number < _EARLIEST_MS else int(number)


def _first(labels: dict[str, str], names: Iterable[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)


def _instance(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise UnreadableLine
    number = int(text)
    return None if number == NOT_MIG else number


def _is_split(series: list[_Series]) -> bool:
    """Whether a field shows that pods are measured apart: beside the device, or with other values."""
    if series[0].key.field not in PER_PROCESS_FIELDS:
        return False
    pods = {entry.workload: entry.value for entry in series if entry.workload != _NOBODY}
    return bool(pods) and (len({entry.workload for entry in series}) > len(pods) or len({*pods.values()}) > 1)


def _merged(series: list[_Series], splits: bool) -> Iterator[ExpositionSample]:
    """One sample of the device, and one of each pod where the exporter measured pods apart. ``splits``: it
    does so for some field of the node, so that equal values are no copies of the device's."""
    key = series[0].key
    by_workload: dict[_Workload, float | None] = {}
    for entry in series:
        if by_workload.get(entry.workload) is None:
            by_workload[entry.workload] = entry.value
    pods = {workload: value for workload, value in by_workload.items() if workload != _NOBODY}
    if key.field in PER_PROCESS_FIELDS and pods and splits:
        for workload, value in by_workload.items():
            yield ExpositionSample(*key[:3], value, *workload)
        return
    order = ([by_workload[_NOBODY]] if _NOBODY in by_workload else []) + list(pods.values())
    value = next((value for value in order if value is not None), None)
    alone = next(iter(by_workload)) if len(by_workload) == 1 else _NOBODY
    yield ExpositionSample(*key[:3], value, *alone)
