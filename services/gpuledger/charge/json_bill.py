"""A bill as JSON that a script reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpuledger.charge.bill import PARTS, SILICON, Bill, Line, sum_of, team_sums
from gpuledger.charge.memory import Unbooked
from gpuledger.charge.scrapes import Scrape
from gpuledger.charge.words import instant_of
from gpuledger.contract.money import format_nano
from gpuledger.contract.rows import Flag


def as_json(
    bill: Bill, assumed: Sequence[str], scrapes: Sequence[Scrape], explained: Sequence[str] | None = None
) -> str:
    """The whole bill; amounts are integers in nano-units of the line's currency, GPU time in ns.

    What the hardware counts is there twice: ``device_sm_active`` and its like are of the whole device,
    whoever used it; ``sm_active`` and its like are the consumer's own and null where it was not alone there.
    ``explained``: the arithmetic in words, where it was asked for.
    """
    found = {
        "from": instant_of(bill.start_ns),
        "to": instant_of(bill.end_ns),
        "start_ns": bill.start_ns,
        "end_ns": bill.end_ns,
        "currencies": bill.currencies,
        "lines": [_line(line) for line in bill.lines],
        "teams": [{"team": team, **_parts(sums)} for team, sums in team_sums(bill)],
        "total": _parts(sum_of(bill.lines)),
        "unpriced_ns": bill.unpriced_ns,
        "unbooked_memory": [_unbooked(one) for one in bill.unbooked],
        "assumptions": list(assumed),
        "skipped_lines": sum(scrape.exposition.skipped_lines for scrape in scrapes),
        "conservation_error_nano": bill.conservation_error_nano,
        "conservation_error_ns": bill.conservation_error_ns,
    }
    if explained is not None:
        found["explanation"] = list(explained)
    return json.dumps(found, indent=2)


def _parts(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {f"{part}_ns": line.ns[part] for part in PARTS}
    for part in PARTS:
        found[f"{part}_nano"] = line.nano[part] if line.priced else None
    found["total_ns"] = line.total_ns
    found["total_nano"] = line.total_nano if line.priced else None
    found["total"] = format_nano(line.total_nano) if line.priced else None
    return found


def _line(line: Line) -> dict[str, Any]:
    return {
        "cluster": line.cluster,
        "node": line.node,
        **line.key,
        **line.said,
        "currency": line.said["currency"] or None,
        "policy": ", ".join(sorted(line.policies)),
        **_parts(line),
        **line.sums,
        "entitlement": line.entitlement,
        **{name: line.mean(name) if line.alone else None for name in SILICON},
        **{f"device_{name}": line.mean(name) for name in SILICON},
        "memory_bytes": line.memory_bytes,
        "memory_peak_bytes": line.memory_peak_bytes or None,
        "energy_joules_by_gpu_time": line.energy_joules,
        "evidence": line.evidence,
        "price_ids": sorted(line.price_ids),
        "flags": [flag.name.lower() for flag in Flag if line.flags & flag and flag.name],
    }


def _unbooked(one: Unbooked) -> dict[str, Any]:
    return {
        **{name: value or None for name, value in one.owner._asdict().items()},
        "mean_bytes": one.mean_bytes,
        "peak_bytes": one.peak_bytes,
    }
