"""What files say of holders: a listing of the kubelet's PodResources, `kubectl get pods -o json`, a holders
file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from gpuledger.agent.devices import parse_device_id
from gpuledger.agent.holders.file import parse_holders
from gpuledger.agent.holders.podresources_api import messages
from gpuledger.agent.holders.podresources_wire import Allocation, ListingReader, read_devices
from gpuledger.agent.holders.pods import PodFacts, pod_facts
from gpuledger.agent.holders.source import Holders
from gpuledger.charge.devices import whole_gpu
from gpuledger.charge.files import as_document, as_text
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Device

NO_HOLDERS = (
    "is no listing of PodResources (JSON with podResources), no list of pods (kubectl get pods -o json)"
    " and no holders file (docs/holders.md)"
)
_LISTING_KEYS = ("podResources", "pod_resources")


@dataclass
class Stated:
    """All that the files say of holders. ``placed``: pods with the name of their node, empty: not known."""

    allocations: list[Allocation] = field(default_factory=list)
    allocatable: list[tuple[str, str]] | None = None
    placed: list[tuple[str, PodFacts]] = field(default_factory=list)
    own: list[Holders] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether no file says anything of holders."""
        return not (self.allocations or self.allocatable or self.placed or self.own)


def read_stated(files: Iterable[tuple[Path, bytes]]) -> Stated:
    """What holders' files say. Raises ConfigError where one is none of the three kinds."""
    stated = Stated()
    for path, data in files:
        text = as_text(data, path)
        document = as_document(text, path)
        if isinstance(document, list) and document and all(isinstance(one, dict) for one in document):
            document = {"podResources": document}
        if not isinstance(document, dict):
            raise ConfigError(NO_HOLDERS, str(path))
        if any(key in document for key in (*_LISTING_KEYS, "allocatable")):
            _listing(document, path, stated)
        elif document.get("kind") in ("List", "PodList", "Pod"):
            _pods(document, path, stated)
        else:
            stated.own.append(parse_holders(text, str(path)))
    return stated


def _listing(document: dict[str, Any], path: Path, stated: Stated) -> None:
    """The kubelet's answers as JSON, with the names of the protocol or those of its JSON mapping."""
    listed = {key: document[key] for key in _LISTING_KEYS if key in document}
    stated.allocations += ListingReader().read(_message("ListPodResourcesResponse", listed, path))
    allocatable = document.get("allocatable")
    if allocatable is None and "devices" in document:
        allocatable = {"devices": document["devices"]}
    if allocatable is not None:
        given = allocatable if isinstance(allocatable, dict) else {"devices": allocatable}
        devices = read_devices(_message("AllocatableResourcesResponse", given, path))
        stated.allocatable = [*(stated.allocatable or []), *devices]


def _message(name: str, document: dict[str, Any], path: Path) -> bytes:
    """The kubelet's message of that name, as it comes from a kubelet."""
    try:
        message = json_format.ParseDict(document, messages()[name](), ignore_unknown_fields=True)
        return bytes(message.SerializeToString())
    except json_format.ParseError as error:
        raise ConfigError(f"is no listing of PodResources: {error}", str(path)) from None


def _pods(document: dict[str, Any], path: Path, stated: Stated) -> None:
    items = [document] if document["kind"] == "Pod" else document.get("items") or []
    for number, item in enumerate(items):
        try:
            facts = pod_facts(item)
            node = str((item.get("spec") or {}).get("nodeName") or "")
        except (AttributeError, TypeError, ValueError):
            raise ConfigError(f"items[{number}] is no pod", str(path)) from None
        if facts is not None:
            stated.placed.append((node, facts))


def devices_in(stated: Stated, known: Collection[str], model: str) -> list[Device]:
    """Whole devices that listings name by a UUID which no scrape shows, and which are of that model."""
    listed = [pair for allocation in stated.allocations for pair in allocation.devices]
    refs = [parse_device_id(*pair) for pair in [*listed, *(stated.allocatable or [])]]
    refs += [held.device for holders in stated.own for held in holders.held]
    refs += [entry.device for holders in stated.own for entry in holders.sharing]
    uuids = {ref.uuid for ref in refs if (ref.uuid or "").startswith("GPU-") and ref.gpu_instance is None}
    return [whole_gpu(uuid, model) for uuid in sorted(filter(None, uuids - set(known)))]
