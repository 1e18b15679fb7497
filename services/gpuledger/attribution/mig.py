"""A GPU cut into MIG instances: which units of its cost each instance is, and what no instance can take.

Policy `slices`: a unit is a slice of the model's largest profile (7 on A100 and H100, 4 on A30). Policy
`dominant`: an instance weighs max(sm / SM slices, memory / memory slices), whichever it takes more of, in
units of 1 / (SM slices x memory slices): 1/56 on A100 and H100. Units are numbered in the order of the GPU
instances; a GPU instance's units go to its compute instances by their slices.

What no instance covers is `free` as far as an instance of one slice could still be made of it, and
`stranded` beyond: SM slices whose memory other instances have taken, those that no instance of one slice
can begin in (a 3g at the start of an H100 leaves three of four), or the part of a GPU instance without a
compute instance. Where the driver does not say where the instances lie, slices and memory are counted only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuledger.attribution.meaning import MAX_UNITS
from gpuledger.contract.records import Device

COMPUTE_PROFILE = re.compile(r"(\d{1,4})c\.(\d{1,4})g\.")  # 1c.3g.40gb: 1 of the 3 slices of its GPU instance
MEMORY_SLICES_OF = {7: 8}  # by SM slices; other models have as many of one as of the other
MAX_SLOTS = 64  # of a GPU, for instances to lie on; an H100 has 8, an RTX PRO 6000 has 12
FREE = "free"
STRANDED = "stranded"


class Units(NamedTuple):
    """A run of a GPU's units: of ``device``, or ``reason`` why no device has it and which instances
    ``cause`` it. ``engine_scale``: the engine is counted for the GPU instance, so that a lone compute
    instance of 1 of 3 slices never shows more than a third (DCGM#138)."""

    first: int
    end: int
    device: Device | None
    reason: str = ""
    cause: str = ""
    engine_scale: float = 1.0


class Partition(NamedTuple):
    """A GPU's units, all of them, in order; ``total`` is how many there are."""

    runs: list[Units]
    total: int


class _GpuInstance(NamedTuple):
    """A GPU instance with its SM and memory slices, and the slices of each of its compute instances."""

    devices: list[Device]
    compute: list[int]
    slices: int
    memory: int

    @property
    def label(self) -> str:
        device = self.devices[0]
        return f"{device.mig_profile or 'instance'}#{device.gpu_instance}"

    @property
    def slots(self) -> int:
        """The GPU's slots that it lies on, a bit each; 0 where nobody says it."""
        start, size = self.devices[0].placement_start, self.devices[0].placement_size
        return ((1 << size) - 1) << start if start >= 0 and size > 0 and start + size <= MAX_SLOTS else 0

    def blocked(self, gpu: Device) -> int:
        """How many instances of one slice would have a place on the GPU if it alone were not there."""
        return _places(gpu, 0) - _places(gpu, self.slots)


def partition(gpu: Device, instances: Sequence[Device], dominant: bool) -> Partition:
    """The units of ``gpu``, whose ``instances`` come in the order of their ids. Where nobody says how many
    slices there are, the instances are equal parts of it."""
    if not any(device.slices for device in (gpu, *instances)) and not gpu.slices_total:
        return Partition([Units(i, i + 1, device) for i, device in enumerate(instances)], len(instances))
    stated = max([gpu.slices_total, *(device.slices_total for device in instances)])
    groups = [
        _gpu_instance([device for _, device in group], gpu, MEMORY_SLICES_OF.get(stated, stated))
        for _, group in groupby(enumerate(instances), key=_gpu_instance_of)
    ]
    slices_total = max(stated, sum(group.slices for group in groups))
    memory_total = MEMORY_SLICES_OF.get(stated, stated) or slices_total
    weights = [max(group.slices * memory_total, group.memory * slices_total) for group in groups]
    scale = memory_total
    total = max(slices_total * scale, sum(weights))
    if not dominant or total > MAX_UNITS:
        weights, scale, total = [group.slices for group in groups], 1, slices_total
    runs: list[Units] = []
    first = 0
    for group, weight in zip(groups, weights, strict=True):
        runs += _runs_of(group, first, weight)
        first += weight
    left = slices_total - sum(group.slices for group in groups)
    places = _free_places(gpu, groups)
    room = memory_total - sum(group.memory for group in groups) if places is None else places
    free = min(total - first, max(0, min(left, room)) * scale)
    heavy = [group for group in groups if group.memory * slices_total > group.slices * memory_total]
    if places is not None:
        heavy = [group for group in groups if group.blocked(gpu) > group.slices] or heavy
    cause = "+".join(group.label for group in heavy or groups)
    runs.append(Units(first, first + free, None, FREE))
    runs.append(Units(first + free, total, None, STRANDED, cause))
    return Partition([run for run in runs if run.first < run.end or run.device], total)


def _free_places(gpu: Device, groups: Sequence[_GpuInstance]) -> int | None:
    """How many instances of one slice still find a place; None where it is not known what is taken."""
    taken = 0
    for group in groups:
        if not group.slots or taken & group.slots:
            return None
        taken |= group.slots
    return _places(gpu, taken) if gpu.slice_starts > 0 and 0 < gpu.slice_size <= MAX_SLOTS else None


def _places(gpu: Device, taken: int) -> int:
    """Instances of one slice that find a place where slots are ``taken``, from the first slot on."""
    found = 0
    for start in range(gpu.slice_starts.bit_length()):
        slots = ((1 << gpu.slice_size) - 1) << start
        if gpu.slice_starts >> start & 1 and not taken & slots:
            taken |= slots
            found += 1
    return found


def _gpu_instance_of(numbered: tuple[int, Device]) -> tuple[int, int]:
    """What compute instances of one GPU instance have in common; an instance without an id is its own."""
    number, device = numbered
    return (device.gpu_instance, 0) if device.gpu_instance >= 0 else (-1, number)


def _gpu_instance(devices: list[Device], gpu: Device, memory_total: int) -> _GpuInstance:
    compute, slices = [], 0
    for device in devices:
        profile = COMPUTE_PROFILE.match(device.mig_profile)
        compute.append(min(int(profile[1]), MAX_UNITS) if profile else device.slices)
        slices = max(slices, min(int(profile[2]), MAX_UNITS) if profile else 0)
    memory = 0
    size = max(device.memory_total_bytes for device in devices)
    if size > 0 and gpu.memory_total_bytes > 0 and memory_total:
        memory = min(memory_total, max(1, round(size / gpu.memory_total_bytes * memory_total)))
    return _GpuInstance(devices, compute, max(slices, sum(compute)), memory)


def _runs_of(group: _GpuInstance, first: int, weight: int) -> Iterator[Units]:
    """The units of a GPU instance, ``weight`` of them, by the slices of its compute instances."""
    whole = max(group.slices, 1)
    taken = 0
    for device, slices in zip(group.devices, group.compute, strict=True):
        low, high = weight * taken // whole, weight * (taken + slices) // whole
        taken += slices
        scale = whole / slices if len(group.devices) == 1 and slices else 1.0
        yield Units(first + low, first + high, device, engine_scale=scale)
    yield Units(first + weight * taken // whole, first + weight, None, STRANDED, group.label)
