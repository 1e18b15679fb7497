"""From what files say to windows that the core can charge."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.exposition import Exposition
from gpuledger.agent.holders.source import Holders, find_device
from gpuledger.agent.samplers.exporter_readings import ExporterReadings
from gpuledger.agent.samplers.samples import Sample
from gpuledger.attribution import NodeWindow
from gpuledger.charge.holders import OnNode
from gpuledger.charge.scrapes import Stretch
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device, Header, Holder, Holdings, Process, SampleBatch
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.contract.windows import MINUTE_NS

T = TypeVar("T")
MIB = 1 << 20
_OF_A_POD = {
    "DCGM_FI_DEV_GPU_UTIL": (Field.PROCESS_SM_UTILIZATION, 0.01, 1.0),
    "DCGM_FI_DEV_FB_USED": (Field.PROCESS_MEMORY_BYTES, float(MIB), float("inf")),
}
"""What exporters from 4.8 on measure of each pod under time-slicing: field, scale, greatest value."""


class Measured(NamedTuple):
    """Samples of devices, and samples of pods as (sample, its process)."""

    samples: list[Sample]
    of_pods: list[tuple[Sample, Process]]


@dataclass(frozen=True)
class Place:
    """A node as the bill shows it."""

    cluster: str
    node: str


def measure(stretches: Sequence[Stretch], devices: Sequence[Device], holders: Holders) -> Measured:
    """The samples of all stretches on a node's devices; a counter's growth needs two scrapes."""
    readings = ExporterReadings(devices)
    found = Measured([], [])
    for stretch in stretches:
        if stretch.scrape is None:
            continue
        samples, _ = readings.take(stretch.scrape.exposition, stretch.start_ns, stretch.end_ns)
        # an instant at the end of all that is charged still belongs to it
        found.samples.extend(
            one if one.duration_ns else one._replace(start_ns=one.start_ns - 1) for one in samples
        )
        found.of_pods.extend(_of_pods(stretch, stretch.scrape.exposition, devices, holders))
    return found


def _of_pods(
    stretch: Stretch, exposition: Exposition, devices: Sequence[Device], holders: Holders
) -> Iterable[tuple[Sample, Process]]:
    uids = {(pod.namespace, pod.name): pod.uid for pod in holders.pods}
    positions = list(devices)
    for one in exposition.samples:
        place = find_device(positions, DeviceRef(one.uuid, gpu_instance=one.gpu_instance))
        if one.pod is None or one.value is None or place is None or one.field not in _OF_A_POD:
            continue
        field, scale, most = _OF_A_POD[one.field]
        name = (one.namespace or "", one.pod)
        uid = uids.get(name, "/".join(name))
        process = Process(0, consumer_kind="pod", consumer=uid, container=one.container or "")
        start, length = stretch.start_ns, stretch.end_ns - stretch.start_ns
        if field is Field.PROCESS_MEMORY_BYTES:
            start, length = stretch.end_ns - 1, 0
        value = min(one.value * scale, most)
        sample = Sample(devices[place].uuid, 0, field, SampleSource.DCGM_EXPORTER, start, length, value)
        yield sample, process


def windows(
    place: Place, on: OnNode, stretches: Sequence[Stretch], cuts: Iterable[int]
) -> Iterator[NodeWindow]:
    """Windows in which nothing changes: cut at minutes, at scrapes and at ``cuts``, where rules change."""
    begin, end = stretches[0].start_ns, stretches[-1].end_ns
    borders = {begin, end, *(stretch.end_ns for stretch in stretches)}
    borders |= set(range(begin - begin % MINUTE_NS + MINUTE_NS, end, MINUTE_NS))
    borders |= {cut for cut in cuts if begin < cut < end}
    order = sorted(borders)
    measured = measure(stretches, on.layout.devices, on.holders)
    samples = _by_window(order, [(sample, sample) for sample in measured.samples])
    of_pods = _by_window(order, [(sample, (sample, process)) for sample, process in measured.of_pods])
    holders = on.holders.records(on.layout.devices)
    for number, (start, stop) in enumerate(pairwise(order)):
        header = Header(place.cluster, place.node, "files", 0, 0, start, stop - start)
        last = replace(header, sequence=1, part=1, last=True)
        batch = _batch(last, on.layout.devices, samples.get(number, []), of_pods.get(number, []))
        yield _window(header, on, holders, batch)


def _by_window(borders: Sequence[int], entries: Iterable[tuple[Sample, T]]) -> dict[int, list[T]]:
    """The entries of each window that their sample overlaps; an instant lies in one."""
    found: dict[int, list[T]] = {}
    for sample, entry in entries:
        first = bisect_right(borders, sample.start_ns) - 1
        last = max(first + 1, bisect_left(borders, sample.start_ns + sample.duration_ns))
        for number in range(max(first, 0), last):
            found.setdefault(number, []).append(entry)
    return found


def _window(header: Header, on: OnNode, holders: list[Holder], batch: SampleBatch) -> NodeWindow:
    state = Holdings(
        header,
        header.window_start_ns,
        on.layout,
        keyframe=True,
        pods=sorted(on.holders.pods, key=lambda pod: pod.uid),
        holders=holders,
        processes=batch.processes,
        unwitnessed=longs([1] * len(on.layout.devices)),  # no kernel's view: the silicon alone says what ran
    )
    return NodeWindow(
        header.cluster,
        header.node,
        header.window_start_ns,
        header.window_length_ns,
        Revision(0, 2, 0, CORE_VERSION),
        holdings=[state],
        samples=[batch],
    )


def _batch(
    header: Header, devices: Sequence[Device], mine: Sequence[Sample], pods: Sequence[tuple[Sample, Process]]
) -> SampleBatch:
    """One record of the samples of a window; the processes of pods get numbers of their own."""
    place = {device.uuid: position for position, device in enumerate(devices)}
    numbers: dict[tuple[str, str], int] = {}
    for _, process in pods:
        numbers.setdefault((process.consumer, process.container), len(numbers))
    processes = [
        Process(number + 1, 1, consumer_kind="pod", consumer=uid, container=container, witnessed=False)
        for (uid, container), number in numbers.items()
    ]
    rows = [(sample, -1) for sample in mine]
    rows += [(sample, numbers[process.consumer, process.container]) for sample, process in pods]
    rows.sort(key=lambda row: (row[0].start_ns, row[0].device, row[1], row[0].field))
    return SampleBatch(
        header,
        devices=[device.uuid for device in devices],
        processes=processes,
        device=longs([place[sample.device] for sample, _ in rows]),
        process=longs([process for _, process in rows]),
        field=longs([int(sample.field) for sample, _ in rows]),
        source=longs([int(sample.source) for sample, _ in rows]),
        start_ns=longs([sample.start_ns for sample, _ in rows]),
        duration_ns=longs([sample.duration_ns for sample, _ in rows]),
        value=doubles([sample.value for sample, _ in rows]),
    )


def with_scrapes(
    found: Sequence[NodeWindow], stretches: Sequence[Stretch], sequence: int
) -> list[NodeWindow]:
    """Recorded windows of a node with what scrapes say of its devices beside their own samples."""
    layouts = [state.layout for window in found for state in window.holdings]
    devices = layouts[0].devices if layouts else []
    measured = measure(stretches, devices, Holders())
    return [_with_samples(window, measured.samples, devices, sequence) for window in found]


def _with_samples(
    window: NodeWindow, samples: Sequence[Sample], devices: Sequence[Device], sequence: int
) -> NodeWindow:
    if not window.holdings:
        return window
    ends = [window.window_start_ns, window.window_end_ns]
    mine = [one for one in samples if one.start_ns < ends[1] and one.start_ns + one.duration_ns >= ends[0]]
    header = replace(window.holdings[0].header, sequence=sequence, amendment=False, last=False)
    return replace(window, samples=[*window.samples, _batch(header, devices, mine, [])])
