"""From what files say to windows that the core can charge."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.exposition import Exposition
from gpuledger.agent.holders.source import Holders, find_device
from gpuledger.agent.samplers.exporter_readings import ExporterReadings
from gpuledger.agent.samplers.samples import Sample
from gpuledger.attribution import NodeWindow
from gpuledger.charge.placing import OnNode
from gpuledger.charge.scrapes import Stretch
from gpuledger.contract.columns import doubles, longs
from gpuledger.contract.fields import Field, SampleSource
from gpuledger.contract.records import Device, Header, Holder, Holdings, Pod, Process, SampleBatch
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.contract.windows import MINUTE_NS

T = TypeVar("T")
MIB = 1 << 20
_OF_A_POD = {
    "DCGM_FI_DEV_GPU_UTIL": (Field.PROCESS_SM_UTILIZATION, 0.01, 1.0),
    "DCGM_FI_DEV_FB_USED": (Field.PROCESS_MEMORY_BYTES, float(MIB), float("inf")),
}
"""What exporters from 4.8 on measure of each pod under time-slicing: field, scale, greatest value."""
OfPod: TypeAlias = tuple[Sample, Process]
"""What a pod's process did, or kept in the device's memory, in the time that a scrape speaks for."""


class Measured(NamedTuple):
    """Samples of devices, and samples of pods with their processes."""

    samples: list[Sample]
    of_pods: list[OfPod]


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
) -> Iterator[OfPod]:
    """The values that were measured of pods apart. The only value of a field is the device's, whichever pod
    it names."""
    uids = {(pod.namespace, pod.name): pod.uid for pod in holders.pods}
    positions = list(devices)
    values = Counter(one[:3] for one in exposition.samples)
    start, length = stretch.start_ns, stretch.end_ns - stretch.start_ns
    for one in exposition.samples:
        place = find_device(positions, DeviceRef(one.uuid, gpu_instance=one.gpu_instance))
        if one.pod is None or one.value is None or place is None or one.field not in _OF_A_POD:
            continue
        if values[one[:3]] > 1:
            field, scale, most = _OF_A_POD[one.field]
            name = (one.namespace or "", one.pod)
            uid = uids.get(name, "/".join(name))
            process = Process(0, consumer_kind="pod", consumer=uid, container=one.container or "")
            value = min(one.value * scale, most)
            source = SampleSource.DCGM_EXPORTER
            yield Sample(devices[place].uuid, 0, field, source, start, length, value), process


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
    on = replace(on, holders=replace(on.holders, pods=_pods(on.holders, measured.of_pods)))
    for number, (start, stop) in enumerate(pairwise(order)):
        header = Header(place.cluster, place.node, "files", 0, 0, start, stop - start)
        last = replace(header, sequence=1, part=1, last=True)
        mine = of_pods.get(number, [])
        batch = _batch(last, on.layout.devices, samples.get(number, []), mine)
        yield _window(header, on, holders, batch, mine)


def _pods(holders: Holders, of_pods: Sequence[OfPod]) -> tuple[Pod, ...]:
    """The pods that hold something, and those of which a scrape shows only that they are there: their uid is
    not known, their name stands for it."""
    known = holders.pod_of
    more = sorted({process.consumer for _, process in of_pods} - known.keys())
    named = [(uid, *uid.partition("/")[::2]) for uid in more]
    return (*holders.pods, *(Pod(uid, namespace, name) for uid, namespace, name in named))


def _by_window(borders: Sequence[int], entries: Iterable[tuple[Sample, T]]) -> dict[int, list[T]]:
    """The entries of each window that their sample overlaps; an instant lies in one."""
    found: dict[int, list[T]] = {}
    for sample, entry in entries:
        first = bisect_right(borders, sample.start_ns) - 1
        last = max(first + 1, bisect_left(borders, sample.start_ns + sample.duration_ns))
        for number in range(max(first, 0), last):
            found.setdefault(number, []).append(entry)
    return found


def _window(
    header: Header, on: OnNode, holders: list[Holder], batch: SampleBatch, of_pods: Sequence[OfPod]
) -> NodeWindow:
    numbers = {(one.consumer, one.container): number for number, one in enumerate(batch.processes)}
    position = {device.uuid: number for number, device in enumerate(on.layout.devices)}
    resident = [
        (numbers[process.consumer, process.container], position[sample.device], int(sample.value))
        for sample, process in of_pods
        if sample.field is Field.PROCESS_MEMORY_BYTES and sample.value
    ]
    state = Holdings(
        header,
        header.window_start_ns,
        on.layout,
        keyframe=True,
        pods=sorted(on.holders.pods, key=lambda pod: pod.uid),
        holders=holders,
        processes=batch.processes,
        resident_process=longs([process for process, _, _ in resident]),
        resident_device=longs([device for _, device, _ in resident]),
        resident_bytes=longs([size for _, _, size in resident]),
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
    header: Header, devices: Sequence[Device], mine: Sequence[Sample], pods: Sequence[OfPod]
) -> SampleBatch:
    """One record of the samples of a window; the processes of pods get numbers of their own. What they keep
    in memory is no sample of a record: it is stated with the holders."""
    place = {device.uuid: position for position, device in enumerate(devices)}
    numbers: dict[tuple[str, str], int] = {}
    for _, process in pods:
        numbers.setdefault((process.consumer, process.container), len(numbers))
    processes = [
        Process(number + 1, 1, consumer_kind="pod", consumer=uid, container=container, witnessed=False)
        for (uid, container), number in numbers.items()
    ]
    rows = [(sample, -1) for sample in mine]
    rows += [
        (sample, numbers[process.consumer, process.container])
        for sample, process in pods
        if sample.field is not Field.PROCESS_MEMORY_BYTES
    ]
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
