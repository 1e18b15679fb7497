"""A GPU cut into MIG instances: which units of its cost each instance is, and what no instance can take.

Policy `slices`: a unit is a slice of the model's largest profile (7 on A100 and H100, 4 on A30). Policy
`dominant`: an instance weighs max(sm / SM slices, memory / memory slices), whichever it takes more of, in
units of 1 / (SM slices x memory slices): 1/56 on A100 and H100. Units are numbered in the order of the GPU
instances; a GPU instance's units go to its compute instances by their slices.

What no instance covers is `free` as far as an instance of one slice could still be made of it, and
`stranded` beyond: SM slices whose memory other instances have taken, or the part of a GPU instance without
a compute instance. Where a profile may be placed is not known here, so that this counts slices only.
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
    makeable = max(0, min(left, memory_total - sum(group.memory for group in groups)))
    free = min(total - first, makeable * scale)
    heavy = [group for group in groups if group.memory * slices_total > group.slices * memory_total]
    cause = "+".join(group.label for group in heavy or groups)
    runs.append(Units(first, first + free, None, FREE))
    runs.append(Units(first + free, total, None, STRANDED, cause))
    return Partition([run for run in runs if run.first < run.end or run.device], total)


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
