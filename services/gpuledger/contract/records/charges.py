"""gpu.charges: the ledger's rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.contract.columns import Doubles, Longs, no_doubles, no_longs
from gpuledger.contract.records.node import Keeper


@dataclass(slots=True, eq=False)
class ChargeSet:
    """All charges of one (cluster, node, window, revision), as columns of the group `rows`; it replaces
    every set of a smaller revision as a whole, and an empty one withdraws the window. Key cluster/node.

    Fields and units: schemas/charge_set.avsc.
    """

    cluster: str
    node: str
    window_start_ns: int
    window_length_ns: int
    generation: int
    inputs: int
    digest: int
    core_version: int
    schema_version: int = 1
    state: str = ""
    price_version: int = 0
    team_version: int = 0
    booking_period: str = ""
    partition: int = -1
    offset_starts: Longs = field(default_factory=no_longs)
    offset_counts: Longs = field(default_factory=no_longs)
    keepers: list[Keeper] = field(default_factory=list)
    keepers_count: int = 0
    texts: list[str] = field(default_factory=list)
    device: Longs = field(default_factory=no_longs)
    consumer_kind: Longs = field(default_factory=no_longs)
    consumer: Longs = field(default_factory=no_longs)
    container: Longs = field(default_factory=no_longs)
    reason: Longs = field(default_factory=no_longs)
    region: Longs = field(default_factory=no_longs)
    zone: Longs = field(default_factory=no_longs)
    instance_type: Longs = field(default_factory=no_longs)
    capacity_type: Longs = field(default_factory=no_longs)
    parent_uuid: Longs = field(default_factory=no_longs)
    gpu_model: Longs = field(default_factory=no_longs)
    mig_profile: Longs = field(default_factory=no_longs)
    sharing: Longs = field(default_factory=no_longs)
    namespace: Longs = field(default_factory=no_longs)
    pod: Longs = field(default_factory=no_longs)
    workload: Longs = field(default_factory=no_longs)
    team: Longs = field(default_factory=no_longs)
    cost_centre: Longs = field(default_factory=no_longs)
    used_ns: Longs = field(default_factory=no_longs)
    held_idle_ns: Longs = field(default_factory=no_longs)
    unallocated_ns: Longs = field(default_factory=no_longs)
    unobserved_ns: Longs = field(default_factory=no_longs)
    unpriced_ns: Longs = field(default_factory=no_longs)
    priced: Longs = field(default_factory=no_longs)
    used_nano: Longs = field(default_factory=no_longs)
    held_idle_nano: Longs = field(default_factory=no_longs)
    unallocated_nano: Longs = field(default_factory=no_longs)
    unobserved_nano: Longs = field(default_factory=no_longs)
    effective_known: Longs = field(default_factory=no_longs)
    effectively_used_ns: Longs = field(default_factory=no_longs)
    effectively_used_nano: Longs = field(default_factory=no_longs)
    currency: Longs = field(default_factory=no_longs)
    borrowed_ns: Longs = field(default_factory=no_longs)
    borrowed_nano: Longs = field(default_factory=no_longs)
    entitlement: Doubles = field(default_factory=no_doubles)
    policy: Longs = field(default_factory=no_longs)
    price_ids: Longs = field(default_factory=no_longs)
    busy_ns: Longs = field(default_factory=no_longs)
    launches: Longs = field(default_factory=no_longs)
    launched_threads: Longs = field(default_factory=no_longs)
    bytes_h2d: Longs = field(default_factory=no_longs)
    bytes_d2h: Longs = field(default_factory=no_longs)
    bytes_d2d: Longs = field(default_factory=no_longs)
    memory_peak_bytes: Longs = field(default_factory=no_longs)
    memory_byte_seconds: Doubles = field(default_factory=no_doubles)
    synchronize_wait_ns: Longs = field(default_factory=no_longs)
    api_errors: Longs = field(default_factory=no_longs)
    sm_active: Doubles = field(default_factory=no_doubles)
    sm_occupancy: Doubles = field(default_factory=no_doubles)
    tensor_active: Doubles = field(default_factory=no_doubles)
    dram_active: Doubles = field(default_factory=no_doubles)
    framebuffer_used_bytes: Doubles = field(default_factory=no_doubles)
    energy_joules: Doubles = field(default_factory=no_doubles)
    xid: Longs = field(default_factory=no_longs)
    evidence: Longs = field(default_factory=no_longs)
    confidence_low_ns: Longs = field(default_factory=no_longs)
    confidence_high_ns: Longs = field(default_factory=no_longs)
    completeness: Doubles = field(default_factory=no_doubles)
    lost_events: Longs = field(default_factory=no_longs)
    flags: Longs = field(default_factory=no_longs)
