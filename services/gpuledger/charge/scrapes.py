"""dcgm-exporter's text as devices on nodes, and the stretches of time that its scrapes speak for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gpuledger.agent.dcgm import parse_exposition
from gpuledger.agent.exposition import ExportedDevice, Exposition
from gpuledger.charge.files import as_text, instant, read_bytes, time_in_name
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Device
from gpuledger.contract.windows import HOUR_NS, NS_PER_S

NS_PER_MS = 1_000_000
DEFAULT_FOR_NS = HOUR_NS
_SLICES = re.compile(r"(?:\d+c\.)?(\d)g\.")
_FOUR_SLICES = re.compile(r"\bA30\b")
MIG_SLICES = 7  # of every board with MIG but the A30


@dataclass(frozen=True)
class Scrape:
    """One scrape and when it was taken; ``stated`` is how that time is known."""

    path: Path
    at_ns: int
    stated: str
    exposition: Exposition


class Stretch(NamedTuple):
    """[start_ns, end_ns) and the scrape that speaks for it, None where none was given."""

    start_ns: int
    end_ns: int
    scrape: Scrape | None


def read_scrapes(arguments: Iterable[str], at: str | None) -> list[Scrape]:
    """The scrapes of ``FILE`` or ``FILE@TIME``, in order of time. ``at`` is the time of the only one.

    Raises ConfigError where a file is no scrape, or two have one time.
    """
    scrapes = [_read(argument) for argument in arguments]
    if at is not None and len(scrapes) == 1:
        scrapes = [Scrape(scrapes[0].path, instant(at, "--at"), "", scrapes[0].exposition)]
    scrapes.sort(key=lambda scrape: scrape.at_ns)
    for one, other in pairwise(scrapes):
        if one.at_ns == other.at_ns:
            message = f"and {one.path.name} have the same time; give each its own: {other.path.name}@TIME"
            raise ConfigError(message, str(other.path))
    return scrapes


def _read(argument: str) -> Scrape:
    path, given = Path(argument), None
    if not path.exists() and "@" in argument:
        name, _, time = argument.rpartition("@")
        path, given = Path(name), instant(time, argument)
    exposition = parse_exposition(as_text(read_bytes(path), path))
    if not exposition.samples:
        raise ConfigError(
            "has no line of a GPU in it; expected the text of dcgm-exporter's /metrics", str(path)
        )
    if given is not None:
        return Scrape(path, given, "", exposition)
    if exposition.time_ms is not None:
        return Scrape(path, exposition.time_ms * NS_PER_MS, "", exposition)
    named = time_in_name(path)
    if named is not None:
        return Scrape(path, named, "", exposition)
    written = path.stat().st_mtime_ns // NS_PER_S * NS_PER_S
    return Scrape(path, written, "when the file was last written", exposition)


def stretches(scrapes: Sequence[Scrape], for_ns: int | None, end_ns: int) -> list[Stretch]:
    """What is charged: of several scrapes the time between each two, the later one speaking for it; of one
    the hour before it. ``for_ns``: exactly so long up to the last, or up to ``end_ns`` where there is none.
    """
    if not scrapes:
        return [Stretch(end_ns - (for_ns or DEFAULT_FOR_NS), end_ns, None)]
    first, last = scrapes[0].at_ns, scrapes[-1].at_ns
    found = [Stretch(one.at_ns, other.at_ns, other) for one, other in pairwise(scrapes)]
    if for_ns is None and found:
        return found
    begin = last - (for_ns or DEFAULT_FOR_NS)
    before = [Stretch(begin, first, scrapes[0])] if begin < first else []
    later = [stretch for stretch in found if stretch.end_ns > begin]
    return [*before, *(stretch._replace(start_ns=max(stretch.start_ns, begin)) for stretch in later)]


def devices_of(scrapes: Iterable[Scrape], one_node: str) -> dict[str, list[Device]]:
    """The devices of each node that scrapes name, GPUs before their MIG instances."""
    found: dict[str, dict[tuple[str, int | None], ExportedDevice]] = {}
    for scrape in scrapes:
        for device in scrape.exposition.devices:
            node = one_node or device.host or "node"
            found.setdefault(node, {}).setdefault((device.uuid, device.gpu_instance), device)
    return {node: _devices(found[node].values()) for node in sorted(found)}


def _devices(exported: Iterable[ExportedDevice]) -> list[Device]:
    exported = list(exported)
    parted = {device.uuid for device in exported if device.gpu_instance is not None}
    gpus: dict[str, Device] = {}
    for device in sorted(exported, key=lambda device: (device.uuid, device.gpu_instance is not None)):
        number = -1 if device.number is None else device.number
        sharing = "mig" if device.uuid in parted else "exclusive"
        gpus.setdefault(device.uuid, Device(device.uuid, number, model=device.model, sharing=sharing))
    instances = [_instance(device) for device in exported if device.gpu_instance is not None]
    order = sorted(gpus.values(), key=lambda gpu: (gpu.index, gpu.uuid))
    return [*order, *sorted(instances, key=lambda one: (one.index, one.parent_uuid, one.gpu_instance))]


def _instance(device: ExportedDevice) -> Device:
    size = _SLICES.match(device.mig_profile)
    instance = -1 if device.gpu_instance is None else device.gpu_instance
    return Device(
        f"MIG-{device.uuid}/{instance}/0",  # the exporter does not print an instance's own UUID
        -1 if device.number is None else device.number,
        parent_uuid=device.uuid,
        gpu_instance=instance,
        compute_instance=0,
        slices=int(size[1]) if size else 0,
        slices_total=0 if size is None else 4 if _FOUR_SLICES.search(device.model) else MIG_SLICES,
        model=device.model,
        mig_profile=device.mig_profile,
    )
