"""What an agent has to be told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuledger.agent.spool.journal import SEGMENT_BYTES
from gpuledger.contract.capacity import capacity_word
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import NodeLayout
from gpuledger.contract.windows import WindowGrid

DEFAULT_SPOOL_BYTES = 1 << 30  # a day of a busy node (12 kB/s); well within a node's own disk
MAX_GPUS = 1024  # of a node: more the processor refuses
_TEXTS = ("instance_id", "instance_type", "capacity_type", "region", "zone", "node_pool")


@dataclass(frozen=True)
class AgentSettings:
    """A node's agent. ``layout`` has no devices yet: NVML, or the simulation, tells them."""

    node: NodeKey
    state_directory: Path
    grid: WindowGrid = field(default_factory=WindowGrid)
    layout: NodeLayout = field(default_factory=NodeLayout)
    launched_ns: int | None = None
    spool_bytes: int = DEFAULT_SPOOL_BYTES
    states_lifetime: bool = True
    """Whether the agent says when its node began and ended; not where the inventory does."""
    flush_s: float = 5.0
    """How long a stop waits for Kafka; what it has not got then waits in the spool."""

    lock_directory: Path | None = None
    """Where the node itself is locked, beside the state directory; None: not at all."""

    def __post_init__(self) -> None:
        if self.spool_bytes < 2 * SEGMENT_BYTES:
            raise ConfigError(f"a spool needs {2 * SEGMENT_BYTES} bytes at least, not {self.spool_bytes}")


def read_layout(path: Path | None, overrides: dict[str, str | None]) -> NodeLayout:
    """The node's layout from a YAML or JSON file, ``overrides`` first. Raises ConfigError.

    Keys: instance_id, instance_type, capacity_type, region, zone, node_pool, gpu_count, labels.
    """
    plain: Any = {} if path is None else _read_yaml(path)
    if not isinstance(plain, dict):
        raise ConfigError("is no mapping", str(path))
    unknown = set(plain) - {*_TEXTS, "gpu_count", "labels"}
    if unknown:
        raise ConfigError(f"knows no {', '.join(sorted(map(str, unknown)))}", str(path))
    plain.update({name: value for name, value in overrides.items() if value is not None})
    labels = plain.get("labels") or {}
    if not isinstance(labels, dict):
        raise ConfigError(f"labels: {json.dumps(labels)} is no mapping", str(path))
    count = plain.get("gpu_count") or 0
    if not isinstance(count, int) or not 0 <= count <= MAX_GPUS:
        raise ConfigError(f"gpu_count: {count!r} is no number from 0 to {MAX_GPUS}", str(path))
    texts = {name: str(plain.get(name) or "") for name in _TEXTS}
    return NodeLayout(
        instance_id=texts["instance_id"],
        instance_type=texts["instance_type"],
        capacity_type=capacity_word(texts["capacity_type"]),
        region=texts["region"],
        zone=texts["zone"],
        node_pool=texts["node_pool"],
        gpu_count=count,
        labels={str(name): str(value) for name, value in labels.items()},
    )


def _read_yaml(path: Path) -> Any:
    import yaml  # read once, before the agent begins

    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # bounds its nesting
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader) or {}
    except OSError as error:
        raise ConfigError(error.strerror or "can not be read", str(path)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # of bytes that are no text, too
        raise ConfigError(f"is no YAML: {' '.join(str(error).split())}", str(path)) from error
