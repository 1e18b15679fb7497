"""What a document would change in the ledger if the past were charged with it: about how much, and whose.

The ledger keeps GPU time and money by hour and by what prices match, but neither node pools nor labels: a
price's node pool is taken from the price that was charged, and of a rule about labels is said that it may
decide. So amounts are estimates; the exact ones come with the generation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import PriceBookVersion
from gpuledger.contract.rows import NODE_DEVICE
from gpuledger.contract.windows import HOUR_NS
from gpuledger.pricing import POOL_TEAM, PriceBook, PricedDevice
from gpuledger.pricing.changes import PriceChange, Range
from gpuledger.pricing.timeline import PricePiece

Money = dict[tuple[str, str], int]
"""Nano by (team, currency)."""


class LedgerHour(NamedTuple):
    """What an hour of the ledger says of like devices and one team. Amounts in nano; 0 where unpriced."""

    hour_ns: int
    cluster: str
    region: str
    zone: str
    instance_type: str
    capacity_type: str
    gpu_model: str
    mig_profile: str
    device: str  # `node` for what of a node is not GPU, else `gpu`
    consumer_kind: str
    namespace: str
    workload: str
    team: str
    price_ids: str
    currency: str
    total_nano: int
    total_ns: int
    unpriced_ns: int
    windows_ns: int


@dataclass(slots=True)
class Effect:
    """The past that would change, and the ``cause`` of its generation. ``unpriced_ns`` is GPU time of it
    without a price, before and after; ``uncertain`` money of which labels decide; ``cut`` says that there
    were more rows than are looked at; ``shared_otherwise`` that a policy moves money besides."""

    ranges: Sequence[Range] = ()
    cause: str = ""
    windows: int = 0
    before: Money = field(default_factory=lambda: defaultdict(int))
    after: Money = field(default_factory=lambda: defaultdict(int))
    unpriced_before_ns: int = 0
    unpriced_after_ns: int = 0
    uncertain: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cut: bool = False
    shared_otherwise: bool = False

    @property
    def keys(self) -> list[tuple[str, str]]:
        """(team, currency) whose money would be another, the largest difference first."""
        keys = {key for key in (*self.before, *self.after) if self.before.get(key) != self.after.get(key)}
        return sorted(keys, key=lambda key: (-abs(self.after.get(key, 0) - self.before.get(key, 0)), key))


def add_price_effect(
    effect: Effect,
    rows: Iterable[LedgerHour],
    changes: Sequence[PriceChange],
    old: Sequence[PriceBookVersion],
    new: PriceBookVersion,
    gpus: Mapping[tuple[str, str], int],
) -> None:
    """Add what rows cost now and would cost, of the rows that a change is for. ``gpus``, of a node by
    (cluster, instance type), stand in where a price does not say how many a node has."""
    book = PriceBook(new)
    pools = {entry.id: entry.node_pool for version in old for entry in version.entries if entry.node_pool}
    shares = {entry.id: entry.gpu_share_ppb for version in old for entry in version.entries}
    for row in rows:
        ids = [name for name in row.price_ids.split(",") if name]
        device = _device(row, next((pools[name] for name in ids if name in pools), ""))
        if not any(_is_for(change, row, device) for change in changes):
            continue
        pieces = book.pieces(device, row.hour_ns, row.hour_ns + HOUR_NS)
        nano, rest_nano, unpriced_ns = _cost(row, pieces, gpus.get((row.cluster, row.instance_type), 1))
        effect.before[row.team, row.currency or new.currency] += row.total_nano
        effect.after[row.team, new.currency] += nano
        effect.unpriced_before_ns += row.unpriced_ns
        effect.unpriced_after_ns += unpriced_ns
        had_a_rest = any(shares.get(name, NANO_PER_UNIT) < NANO_PER_UNIT for name in ids)
        if rest_nano and not had_a_rest:  # the ledger has no row yet of what of the node is not GPU
            effect.before[POOL_TEAM, row.currency or new.currency] += 0
            effect.after[POOL_TEAM, new.currency] += rest_nano


def _device(row: LedgerHour, node_pool: str) -> PricedDevice:
    return PricedDevice(
        cluster=row.cluster,
        region=row.region,
        zone=row.zone,
        instance_type=row.instance_type,
        capacity_type=row.capacity_type,
        node_pool=node_pool,
        gpu_model=row.gpu_model,
        mig_profile=row.mig_profile,
    )


def _is_for(change: PriceChange, row: LedgerHour, device: PricedDevice) -> bool:
    return (
        change.start_ns < row.hour_ns + HOUR_NS
        and row.hour_ns < change.end_ns
        and all(wanted in ("", value) for wanted, value in zip(change.match, device.match_key, strict=True))
    )


def _cost(row: LedgerHour, pieces: Sequence[PricePiece], gpus: int) -> tuple[int, int, int]:
    """(nano of the row, nano of what of its nodes is not GPU, unpriced ns), its time spread over the hour."""
    nano = rest = unpriced = 0
    for piece in pieces:
        part = piece.end_ns - piece.start_ns
        entry = piece.entry
        if entry is None:
            unpriced += row.total_ns * part // HOUR_NS
            continue
        unit = piece.unit_price_nano_per_hour
        if row.device == NODE_DEVICE:
            if entry.per == "node":
                whole = unit * row.windows_ns * part // (HOUR_NS * HOUR_NS)
                nano += whole * (NANO_PER_UNIT - entry.gpu_share_ppb) // NANO_PER_UNIT
            continue
        whole = unit * row.total_ns * part // (HOUR_NS * HOUR_NS)
        if entry.per == "node":
            whole //= entry.gpus_per_node or max(gpus, 1)
            of_gpus = whole * entry.gpu_share_ppb // NANO_PER_UNIT
            nano += of_gpus
            rest += whole - of_gpus
        else:
            nano += whole
    return nano, rest, unpriced
