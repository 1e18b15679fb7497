"""gpu.breaches and gpu.dead-letters."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class BreachDriver:
    """Who drives a breach."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    nano: int = 0
    gpu_ns: int = 0


@dataclass(slots=True)
class Breach:
    """One change in the life of a breach. Key: the breach's id.

    Fields and units: schemas/breach.avsc.
    """

    id: str
    change: int
    state: str
    budget_id: str
    budget_version: int
    period_start_ns: int
    period_end_ns: int
    since_ns: int
    window_start_ns: int
    previous_state: str = ""
    rule: str = "threshold"
    threshold_ppm: int = 0
    spent_nano: int | None = None
    amount_nano: int | None = None
    currency: str = ""
    spent_gpu_ns: int | None = None
    amount_gpu_ns: int | None = None
    forecast_low_ns: int | None = None
    forecast_high_ns: int | None = None
    drivers: list[BreachDriver] = field(default_factory=list)
    message: str = ""
    link: str = ""
    acknowledged_by: str = ""
    silenced_until_ns: int | None = None
    budget_name: str = ""
    scope: dict[str, str] = field(default_factory=dict)
    speed: str = ""
    factor_nano: int = 0
    at_ns: int = 0
    why: str = ""
    acknowledged_until_ns: int | None = None
    silenced_by: str = ""


@dataclass(slots=True)
class HeaderItem:
    """A Kafka record header."""

    name: str
    value: bytes | None = None


@dataclass(slots=True)
class DeadLetter:
    """A refused record, whole or by its place, with the reason. Key: as the record's.

    Fields and units: schemas/dead_letter.avsc.
    """

    reason: str
    source_topic: str
    source_partition: int
    source_offset: int
    detail: str = ""
    stage: str = ""
    append_ns: int = 0
    cluster: str = ""
    node: str = ""
    boot_id: str = ""
    epoch_ns: int | None = None
    sequence: int | None = None
    window_start_ns: int | None = None
    mend: int = 0
    key: bytes | None = None
    value: bytes | None = None
    value_bytes: int = 0
    headers: list[HeaderItem] = field(default_factory=list)
    refused_ns: int = 0
