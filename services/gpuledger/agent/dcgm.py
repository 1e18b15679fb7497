"""What dcgm-exporter says, of any version and label set, as samples of devices.

The exporter prints label values without escaping, so a quote, a backslash or a line break in a pod's label
breaks the format: labels are found by what follows a closing quote, and a line that was broken is joined
again. What can not be read is skipped and counted; nothing is ever raised.
Line template: dcgm-exporter, internal/pkg/rendermetrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gpuledger.agent.dcgm_fields import classic_name, clean
from gpuledger.agent.exposition import ExportedDevice, ExportedHolder, Exposition, ExpositionSample

MAX_JOINED_LINES: Final = 64  # a label value with more line breaks than that is no label
NOT_MIG: Final = 0xFFFFFFFF  # NVML's instance number of a device without instances

PER_PROCESS_FIELDS: Final = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"})
"""Fields that exporters from 4.8 on split by process under time-slicing, beside the line of the device."""

# every repetition is bounded, so that no text takes more than linear time
_OPEN = re.compile(r"\s{0,64}([A-Za-z_:][A-Za-z0-9_:]{0,254})\s{0,64}\{")
_FIRST_LABEL = re.compile(r'\s{0,64}(?:[A-Za-z_]\w{0,254}\s{0,64}=\s{0,64}"|\})', re.ASCII)
_CLOSE = re.compile(
    r'(?:"[\s,.]{0,16}|(?<=\{)\s{0,64})\}'
    r"\s{0,64}(?P<value>[^\s#]{1,64})(?:\s{1,64}(?P<time>-?[0-9.]{1,32}))?\s{0,64}(?:#.*)?\Z",
    re.DOTALL,
)
_LABEL = re.compile(
    r'(?:\A\s{0,64}|"\s{0,64},\s{0,64}(?:\.{3},)?)([A-Za-z_]\w{0,254})\s{0,64}=\s{0,64}"', re.ASCII
)
"""A label begins the block, or follows a closing quote. Bug reports shorten lists of labels to three dots."""
_BARE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,254})[ \t]{1,64}([^\s#]{1,64})(?:[ \t]{1,64}[^\s#]{1,32})?")
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?|inf|infinity|nan)",
    re.IGNORECASE | re.ASCII,
)
_COMMENTS = ("# HELP", "# TYPE", "# UNIT", "# EOF")
_NO_VALUES = frozenset({"n/a", "[n/a]", "null", "none"})

_UUID_LABELS = ("uuid", "gpu_uuid")
_POD_LABELS = ("exported_pod", "pod", "pod_name")
_NAMESPACE_LABELS = ("exported_namespace", "namespace", "pod_namespace")
_CONTAINER_LABELS = ("exported_container", "container", "container_name")
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


_NOBODY = _Workload(None, None, None)


class _Unreadable(Exception):
    """A line that says nothing certain; it never leaves this module."""


def parse_exposition(text: str) -> Exposition:
    """The samples of a scrape, in the order of the text. Takes any text, in linear time; raises on none."""
    found: dict[_Key, list[_Series]] = {}
    devices: dict[tuple[str, int | None], ExportedDevice] = {}
    holders: dict[ExportedHolder, None] = {}
    times: set[int] = set()
    skipped = 0
    for lines in _logical_lines(text):
        try:
            series = _read(lines)
        except _Unreadable:
            skipped += len(lines)
            continue
        if series is not None:
            found.setdefault(series.key, []).append(series)
            devices.setdefault(series.key[:2], series.device)
            if series.workload.pod is not None:
                holders[_holder(series)] = None
            if series.time_ms is not None:
                times.add(series.time_ms)
    samples = tuple(sample for series in found.values() for sample in _merged(series))
    return Exposition(samples, skipped, tuple(devices.values()), tuple(holders), max(times, default=None))


def _holder(series: _Series) -> ExportedHolder:
    namespace, pod, container = series.workload
    return ExportedHolder(*series.key[:2], namespace or "", pod or "", container or "", series.slot)


def _logical_lines(text: str) -> Iterator[list[str]]:
    """Lines with content, those together that a line break in a label value has torn apart."""
    torn: list[str] = []
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        comment = line.lstrip().startswith("#")
        if torn:
            if not (_begins(line) or (comment and line.lstrip().startswith(_COMMENTS))):
                torn.append(line)
                if _CLOSE.search(line) or len(torn) >= MAX_JOINED_LINES:
                    yield torn
                    torn = []
                continue
            yield _without_blank_end(torn)
            torn = []
        if not line.strip() or comment:
            continue
        if _OPEN.match(line) and not _CLOSE.search(line):
            torn = [line]
        else:
            yield [line]
    if torn:
        yield _without_blank_end(torn)


def _begins(line: str) -> bool:
    """Whether a series begins here."""
    opened = _OPEN.match(line)
    if opened:
        return _FIRST_LABEL.match(line, opened.end()) is not None
    bare = _BARE.fullmatch(line.strip()) if len(line) < 1024 else None
    return bare is not None and _NUMBER.fullmatch(bare[2]) is not None


def _without_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end > 1 and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _read(lines: list[str]) -> _Series | None:
    """The series that the lines state, None for one that is no GPU's. Raises _Unreadable."""
    line = "\n".join(lines)
    opened = _OPEN.match(line)
    if opened is None:
        bare = _BARE.fullmatch(line.strip()) if len(line) < 1024 else None
        if bare is None or classic_name(bare[1]) is not None:
            raise _Unreadable  # not the format, or a value of DCGM of which nobody knows the device
        _number(bare[2])
        return None
    closed = _CLOSE.search(line, opened.end())
    if closed is None:
        raise _Unreadable
    value = _number(closed["value"])
    field = classic_name(opened[1])
    if field is None:
        return None
    labels = _labels(line[opened.end() : closed.start()])
    uuid = _first(labels, _UUID_LABELS)
    if uuid is None:
        if _OF_NO_GPU.isdisjoint(labels):
            raise _Unreadable
        return None
    kind = tuple(labels.get(name) for name in _KINDS_OF_ONE_FIELD)
    key = _Key(uuid, _instance(labels.get("gpu_i_id")), field, kind)
    names = (_NAMESPACE_LABELS, _POD_LABELS, _CONTAINER_LABELS)
    workload = _Workload(*(_first(labels, aliases) for aliases in names))
    cleaned = None if value is None else clean(field, value)
    device = _device(key, labels)
    return _Series(key, workload, cleaned, device, _time_ms(closed["time"]), _small(labels.get("vgpu", "")))


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
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 15 else None


def _labels(block: str) -> dict[str, str]:
    """Labels by lower-case name; of two with one name the first, which the exporter itself wrote."""
    marks = list(_LABEL.finditer(block))
    ends = [*(mark.start() for mark in marks[1:]), len(block)]
    labels: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=False):  # without a label there is one end too many
        labels.setdefault(mark[1].lower(), block[mark.end() : end])
    return labels


def _first(labels: dict[str, str], names: Iterable[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)


def _instance(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise _Unreadable
    number = int(text)
    return None if number == NOT_MIG else number


def _number(text: str) -> float | None:
    """The value, None where the text says that there is none. Raises _Unreadable."""
    if _NUMBER.fullmatch(text):
        return float(text)
    if (text.startswith("<<<") and ">>>" in text) or text.lower() in _NO_VALUES:
        return None
    raise _Unreadable


def _merged(series: list[_Series]) -> Iterator[ExpositionSample]:
    """One sample of the device, and one of each pod where the exporter measured pods apart."""
    key = series[0].key
    by_workload: dict[_Workload, float | None] = {}
    for entry in series:
        if by_workload.get(entry.workload) is None:
            by_workload[entry.workload] = entry.value
    pods = {workload: value for workload, value in by_workload.items() if workload != _NOBODY}
    apart = key.field in PER_PROCESS_FIELDS and bool(pods)
    if apart and (_NOBODY in by_workload or len(set(pods.values())) > 1):
        for workload, value in by_workload.items():
            yield ExpositionSample(*key[:3], value, *workload)
        return
    order = ([by_workload[_NOBODY]] if _NOBODY in by_workload else []) + list(pods.values())
    value = next((value for value in order if value is not None), None)
    alone = next(iter(by_workload)) if len(by_workload) == 1 else _NOBODY
    yield ExpositionSample(*key[:3], value, *alone)
