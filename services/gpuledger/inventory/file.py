"""Node lifetimes from a YAML or JSON file, for clusters without Kubernetes; read again when it changes.

nodes:
  - name: gpu-7
    instance_id: rack3-u12          # optional; the name where it is left out
    launched: 2025-11-05T09:00:00Z
    ended: 2026-01-01T00:00:00Z     # once it has ended; a node is not ended by being left out
    instance_type: dgx-h100
    capacity_type: owned
    region: dc1
    zone: hall-2
    node_pool: training
    gpu_count: 8
    labels: {rack: "3"}
    devices: [{uuid: GPU-6f..., index: 0, model: NVIDIA H100 80GB HBM3}]
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from gpuledger.contract.capacity import capacity_word
from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Device, NodeLayout, NodeLifetime
from gpuledger.contract.windows import FIRST_LAUNCH_NS
from gpuledger.documents import in_words, read_text
from gpuledger.inventory.lives import LifeKey, Stated

STATED_BY = "file"
_STRICT = ConfigDict(extra="forbid")
MAX_GPUS = 1024  # of a node; more the processor refuses, as it does longer texts and earlier launches
_Text = Annotated[str, Field(max_length=1024)]
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_FIRST = _EPOCH + timedelta(microseconds=FIRST_LAUNCH_NS // 1000)
_LAST = datetime.fromisoformat("2116-01-01T00:00:00+00:00")  # there prices end
_Time = Annotated[AwareDatetime, Field(ge=_FIRST, lt=_LAST)]


class _Device(BaseModel):
    model_config = _STRICT
    uuid: Annotated[str, Field(min_length=2, max_length=256)]
    index: Annotated[int, Field(ge=-1, le=MAX_GPUS)] = -1
    model: _Text = ""
    memory_total_bytes: Annotated[int, Field(ge=0, lt=1 << 62)] = 0


class _Node(BaseModel):
    model_config = _STRICT
    name: _Text
    instance_id: _Text = ""
    launched: _Time | None = None
    ended: _Time | None = None
    instance_type: _Text = ""
    capacity_type: _Text = ""
    region: _Text = ""
    zone: _Text = ""
    node_pool: _Text = ""
    gpu_count: Annotated[int, Field(ge=0, le=MAX_GPUS)] = 0
    labels: dict[_Text, _Text] = {}
    devices: Annotated[list[_Device], Field(max_length=MAX_GPUS)] = []


class _Document(BaseModel):
    model_config = _STRICT
    nodes: list[_Node] = []


def read_lives(path: Path, cluster: str, length_ns: int) -> dict[LifeKey, NodeLifetime]:
    """What the file states. Raises ConfigError that says what is wrong and where."""
    try:
        plain = yaml.safe_load(read_text(path))
        document = _Document.model_validate(plain if plain is not None else {})
    except yaml.YAMLError as error:
        raise ConfigError(f"is no YAML: {' '.join(str(error).split())}", str(path)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        where = f"{path}: {field}" if field else str(path)
        raise ConfigError(in_words(first), where) from error
    found: dict[LifeKey, NodeLifetime] = {}
    for number, node in enumerate(document.nodes):
        where = f"{path}: nodes.{number}"
        life = _life(node, cluster, length_ns, where)
        key = LifeKey(life.node, life.layout.instance_id)
        if key in found:
            raise ConfigError(f"{key.node} has instance {key.instance} twice", where)
        found[key] = life
    return found


def statements(wanted: Stated, stated: Stated, now_ns: int) -> list[NodeLifetime]:
    """What the file says and gpu.nodes does not yet."""
    return [
        replace(life, stated_ns=now_ns)
        for key, life in sorted(wanted.items())
        if key not in stated or replace(stated[key], stated_ns=now_ns) != replace(life, stated_ns=now_ns)
    ]


def _life(node: _Node, cluster: str, length_ns: int, where: str) -> NodeLifetime:
    try:
        NodeKey(cluster, node.name).checked()
    except BadRecord as error:
        raise ConfigError(str(error), where) from error
    launched, ended = _ns(node.launched), _ns(node.ended)
    if launched is not None and ended is not None and ended < launched:
        raise ConfigError(f"{node.name} ended before it launched", where)
    if len({device.uuid for device in node.devices}) < len(node.devices):
        raise ConfigError(f"{node.name} has two devices with one uuid", where)
    return NodeLifetime(
        cluster=cluster,
        node=node.name,
        layout=NodeLayout(
            instance_id=node.instance_id or node.name,
            instance_type=node.instance_type,
            capacity_type=capacity_word(node.capacity_type),
            region=node.region,
            zone=node.zone,
            node_pool=node.node_pool,
            gpu_count=node.gpu_count,
            labels=node.labels,
            devices=[Device(**device.model_dump()) for device in node.devices],
        ),
        launched_ns=launched,
        ended_ns=ended,
        window_length_ns=length_ns,
        stated_by=STATED_BY,
    )


def _ns(time: datetime | None) -> int | None:
    return None if time is None else (time - _EPOCH) // timedelta(microseconds=1) * 1000
