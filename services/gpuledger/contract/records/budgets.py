"""gpu.budget-subtotals, gpu.budget-state and gpu.breach-notes: what the budgets application goes by."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.contract.columns import Longs, no_longs


@dataclass(slots=True, eq=False)
class BudgetSubtotal:
    """What one partition of gpu.charges has counted for budgets, absolute, of the meters that changed.
    Key: the partition's number.

    Fields and units: schemas/budget_subtotal.avsc.
    """

    partition: int
    version: int
    newest_end_ns: int = 0
    texts: list[str] = field(default_factory=list)
    meter: Longs = field(default_factory=no_longs)
    period_start_ns: Longs = field(default_factory=no_longs)
    nano: Longs = field(default_factory=no_longs)
    gpu_ns: Longs = field(default_factory=no_longs)
    unconverted_nano: Longs = field(default_factory=no_longs)
    through_ns: Longs = field(default_factory=no_longs)
    bucket_meter: Longs = field(default_factory=no_longs)
    bucket_length_ns: Longs = field(default_factory=no_longs)
    bucket_start_ns: Longs = field(default_factory=no_longs)
    bucket_amount: Longs = field(default_factory=no_longs)
    driver_total: Longs = field(default_factory=no_longs)
    driver_namespace: Longs = field(default_factory=no_longs)
    driver_workload: Longs = field(default_factory=no_longs)
    driver_pod: Longs = field(default_factory=no_longs)
    driver_nano: Longs = field(default_factory=no_longs)
    driver_gpu_ns: Longs = field(default_factory=no_longs)


@dataclass(slots=True, eq=False)
class BudgetState:
    """All that one partition of gpu.charges has counted for budgets. Key partition/part, in the partition of
    that number; compacted.

    Fields and units: schemas/budget_state.avsc.
    """

    subtotal: BudgetSubtotal
    part: int = 0
    parts: int = 1
    subtotals_offset: int = 0
    tail_offset: int = 0
    tail_start_ms: int = 0
    texts: list[str] = field(default_factory=list)
    node_cluster: Longs = field(default_factory=no_longs)
    node_name: Longs = field(default_factory=no_longs)
    high_water_ns: Longs = field(default_factory=no_longs)
    window_length_ns: Longs = field(default_factory=no_longs)
    known_node: Longs = field(default_factory=no_longs)
    known_window_ns: Longs = field(default_factory=no_longs)
    known_revision: Longs = field(default_factory=no_longs)
    restated_node: Longs = field(default_factory=no_longs)
    restated_window_ns: Longs = field(default_factory=no_longs)
    restated_revision: Longs = field(default_factory=no_longs)
    counted_restated: Longs = field(default_factory=no_longs)
    counted_meter: Longs = field(default_factory=no_longs)
    counted_nano: Longs = field(default_factory=no_longs)
    counted_gpu_ns: Longs = field(default_factory=no_longs)
    counted_unconverted_nano: Longs = field(default_factory=no_longs)
    backfilled_meter: Longs = field(default_factory=no_longs)
    backfilled_length_ns: Longs = field(default_factory=no_longs)
    backfilled_from_ns: Longs = field(default_factory=no_longs)
    backfilled_until_ns: Longs = field(default_factory=no_longs)
    backfilled_told: Longs = field(default_factory=no_longs)


@dataclass(slots=True)
class BreachNote:
    """What a person said about a breach, or about all of a budget's. Key: its id.

    Fields and units: schemas/breach_note.avsc.
    """

    at_ns: int
    kind: str
    who: str
    breach_id: str = ""
    budget_id: str = ""
    until_ns: int | None = None
    comment: str = ""
    change: int | None = None
