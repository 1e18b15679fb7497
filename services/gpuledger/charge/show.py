"""A bill as a table that a team lead reads, as JSON that a script reads, and with its arithmetic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from gpuledger.charge.bill import PARTS, Bill, Line
from gpuledger.charge.scrapes import Scrape
from gpuledger.contract.money import format_nano
from gpuledger.contract.records import PriceEntry
from gpuledger.contract.rows import NO_DEVICE, NODE_DEVICE, Flag
from gpuledger.contract.windows import HOUR_NS, NS_PER_S

_MONEY_DIGITS = 4
_FLAGS_SAID = {
    Flag.GPU_UTILIZATION_USED: "busy is GPU_UTIL, which says only that something ran",
    Flag.SIGNALS_DISAGREE: "the counters contradict each other",
    Flag.OFF_THE_BOOKS: "holds nothing here",
    Flag.INTRUDER: "somebody who booked nothing used it",
    Flag.OVERBOOKED: "more is held than there is",
    Flag.UNBOOKED_MEMORY: "memory resident without a holding",
}


def print_bill(console: Console, bill: Bill, assumed: Sequence[str]) -> None:
    """The bill by GPU and consumer, by team, and what was assumed."""
    span = f"{_time(bill.start_ns)} to {_time(bill.end_ns)}, {_hours(bill.end_ns - bill.start_ns)} h"
    unit = ", ".join(bill.currencies) or "GPU-hours"
    nodes = {line.node for line in bill.lines}
    where = f"{len(nodes)} nodes" if len(nodes) > 1 else "".join(nodes)
    console.print(f"[bold]Who pays[/bold] ({unit}; {where}; {span})")
    console.print(_lines_table(bill))
    console.print(_teams_table(bill))
    if bill.unpriced_ns:
        console.print(
            f"[bold red]No price for {_hours(bill.unpriced_ns)} GPU-hours[/bold red]: "
            f"{', '.join(_unpriced(bill))}. They are not in the amounts."
        )
    if assumed:
        console.print("Assumed:")
        for text in assumed:
            console.print(f"  - {text}", markup=False)
    if bill.conservation_error_nano or bill.conservation_error_ns:
        console.print(
            "[bold red]The lines do not add up to the price: this is a fault of gpuledger.[/bold red]"
        )


def _lines_table(bill: Bill) -> Table:
    table = Table(show_footer=True)
    money = bool(bill.currencies)
    value = _amount if money else _part_hours
    totals = _sums(bill.lines)
    nodes = {line.node for line in bill.lines}
    remarks = [_remarks(line) for line in bill.lines]
    if len(nodes) > 1:
        table.add_column("node", overflow="fold")
    table.add_column("GPU", no_wrap=True)
    table.add_column("who", overflow="fold", min_width=24)
    table.add_column("team", footer="total", overflow="fold")
    for name in ("holds %", "used %"):
        table.add_column(name, justify="right")
    for part in PARTS:
        table.add_column(part.replace("_", " "), justify="right", footer=value(totals, part))
    table.add_column("total", justify="right", footer=_total(totals, money), style="bold")
    table.add_column("SM active %", justify="right")
    table.add_column("known by", no_wrap=True)
    if any(remarks):
        table.add_column("remarks", overflow="fold")
    for line, remark in zip(bill.lines, remarks, strict=True):
        device_ns = sum(one.total_ns for one in bill.device_lines(line))
        cells = [
            _device(line),
            _who(line),
            "" if line.is_pool else line.said["team"],
            "" if line.is_pool else _percent(line.entitlement),
            "" if line.is_node or not device_ns else _percent(line.ns["used"] / device_ns),
            *(value(line, part) for part in PARTS),
            _total(line, money),
            "" if line.is_pool else _percent(line.mean("sm_active")),
            line.evidence.replace("_", " "),
        ]
        table.add_row(*([line.node] if len(nodes) > 1 else []), *cells, *([remark] if any(remarks) else []))
    return table


def _teams_table(bill: Bill) -> Table:
    table = Table(title="By team", title_justify="left")
    money = bool(bill.currencies)
    value = _amount if money else _part_hours
    table.add_column("team")
    for part in PARTS:
        table.add_column(part.replace("_", " "), justify="right")
    table.add_column("total", justify="right", style="bold")
    table.add_column("GPU-hours", justify="right")
    for team, sums in team_sums(bill):
        table.add_row(
            team, *(value(sums, part) for part in PARTS), _total(sums, money), _hours(sums.total_ns)
        )
    return table


def team_sums(bill: Bill) -> list[tuple[str, Line]]:
    """(team, the sum of its lines), the dearest first."""
    names = dict.fromkeys(line.said["team"] for line in bill.lines)
    sums = [(name, _sums(line for line in bill.lines if line.said["team"] == name)) for name in names]
    return sorted(sums, key=lambda entry: (-entry[1].total_nano, -entry[1].total_ns, entry[0]))


def _sums(lines: Iterable[Line]) -> Line:
    total = Line("", {}, {})
    for line in lines:
        for part in PARTS:
            total.ns[part] += line.ns[part]
            total.nano[part] += line.nano[part]
        total.priced |= line.priced
        total.sums["unpriced_ns"] += line.sums["unpriced_ns"]
    return total


def _amount(line: Line, part: str) -> str:
    return format_nano(line.nano[part], _MONEY_DIGITS) if line.priced else "no price"


def _part_hours(line: Line, part: str) -> str:
    return _hours(line.ns[part])


def _total(line: Line, money: bool) -> str:
    if not money:
        return _hours(line.total_ns)
    return format_nano(line.total_nano, _MONEY_DIGITS) if line.priced else "no price"


def _device(line: Line) -> str:
    uuid = line.key["device"]
    if uuid == NODE_DEVICE:
        return "(rest of the node)"
    if uuid == NO_DEVICE:
        return "(missing GPU)"
    profile = f" {line.said['mig_profile']}" if line.said["mig_profile"] else ""
    if uuid.startswith("MIG-GPU-"):
        instance = uuid.partition("/")[2].partition("/")[0]
        return f"{uuid[4:16]}/{instance}{profile}"
    return f"{uuid[:12]}{profile}"


def _who(line: Line) -> str:
    container = line.key["container"]
    return f"{line.who} [{container}]" if container else line.who


def _remarks(line: Line) -> str:
    said = [] if line.key["reason"] in ("none", "free") else [line.key["reason"].replace("_", " ")]
    said += [text for flag, text in _FLAGS_SAID.items() if line.flags & flag]
    return "; ".join(said)


def _unpriced(bill: Bill) -> list[str]:
    found = {
        line.said["gpu_model"] or line.said["instance_type"] or line.key["device"]
        for line in bill.lines
        if line.sums["unpriced_ns"]
    }
    return sorted(found)


def as_json(bill: Bill, assumed: Sequence[str], scrapes: Sequence[Scrape]) -> str:
    """The whole bill; amounts are integers in nano-units of the line's currency, GPU time in ns."""
    return json.dumps(
        {
            "from": _time(bill.start_ns),
            "to": _time(bill.end_ns),
            "start_ns": bill.start_ns,
            "end_ns": bill.end_ns,
            "currencies": bill.currencies,
            "lines": [_line_json(line) for line in bill.lines],
            "teams": [{"team": team, **_parts_json(sums)} for team, sums in team_sums(bill)],
            "total": _parts_json(_sums(bill.lines)),
            "unpriced_ns": bill.unpriced_ns,
            "assumptions": list(assumed),
            "skipped_lines": sum(scrape.exposition.skipped_lines for scrape in scrapes),
            "conservation_error_nano": bill.conservation_error_nano,
            "conservation_error_ns": bill.conservation_error_ns,
        },
        indent=2,
    )


def _parts_json(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {f"{part}_ns": line.ns[part] for part in PARTS}
    for part in PARTS:
        found[f"{part}_nano"] = line.nano[part] if line.priced else None
    found["total_ns"] = line.total_ns
    found["total_nano"] = line.total_nano if line.priced else None
    found["total"] = format_nano(line.total_nano) if line.priced else None
    return found


def _line_json(line: Line) -> dict[str, Any]:
    flags = [flag.name.lower() for flag in Flag if line.flags & flag and flag.name]
    return {
        "node": line.node,
        **line.key,
        **line.said,
        "currency": line.said["currency"] or None,
        **_parts_json(line),
        **line.sums,
        "entitlement": line.entitlement,
        **{name: line.mean(name) for name in ("sm_active", "sm_occupancy", "tensor_active", "dram_active")},
        "framebuffer_used_bytes": line.mean("framebuffer_used_bytes"),
        "energy_joules": line.energy_joules,
        "evidence": line.evidence,
        "price_ids": sorted(line.price_ids),
        "flags": flags,
    }


def print_explained(console: Console, bill: Bill, entries: Sequence[PriceEntry]) -> None:
    """The arithmetic of each line, to the nano-unit."""
    by_id = {entry.id: entry for entry in entries}
    console.print("\n[bold]How each line comes about[/bold]")
    for line in bill.lines:
        for text in explained(bill, line, by_id):
            console.print(text, markup=False, soft_wrap=True)


def explained(bill: Bill, line: Line, entries: dict[str, PriceEntry]) -> list[str]:
    """The price of the device for the time, its occupied share, the line's part of it, and of the idle."""
    device = bill.device_lines(line)
    cost = sum(one.total_nano for one in device)
    time_ns = sum(one.total_ns for one in device)
    said = [f"{line.node} {_device(line)} {_who(line)}"]
    for name in sorted(line.price_ids):
        entry = entries.get(name)
        if entry is not None:
            rate = format_nano(entry.unit_price_nano_per_hour)
            said.append(f"    price {name}: {rate} {entry.currency} an hour per {entry.per}")
    if not time_ns:
        said.append(f"    the part of the node that is no GPU's: {format_nano(line.total_nano)}")
        return said
    currency = line.said["currency"]
    amount = f" = C {format_nano(cost)} {currency}" if line.priced else ", without a price"
    said.append(f"    the device: {time_ns / NS_PER_S:.3f} s{amount}")
    occupied = sum(one.ns["used"] + one.ns["unobserved"] for one in device)
    entitled = line.entitlement or 0.0
    low, high = line.sums["confidence_low_ns"], line.sums["confidence_high_ns"]
    said.append(
        f"    A = {occupied / time_ns:.6f} of it occupied or unknown; this line: e = {entitled:.6f},"
        f" a = {line.ns['used'] / time_ns:.6f} ({line.evidence.replace('_', ' ')}, between"
        f" {low / time_ns:.4f} and {high / time_ns:.4f})"
    )
    formulas = {
        "used": "used = C x a",
        "held_idle": "held idle = C x (1 - A) x max(0, e - a) / sum of these and of what nobody holds",
        "unallocated": "unallocated = the same, of what nobody holds",
        "unobserved": "unobserved = what nobody can explain",
    }
    for part, formula in formulas.items():
        if line.ns[part]:
            money = f" = {format_nano(line.nano[part])} {currency}" if line.priced else ""
            said.append(f"    {formula}: {line.ns[part] / NS_PER_S:.9f} s{money}")
    money = f", {format_nano(line.total_nano)} {currency}" if line.priced else ""
    said.append(f"    total {line.total_ns / NS_PER_S:.9f} s{money}")
    return said


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.1f}"


def _hours(ns: int) -> str:
    return f"{ns / HOUR_NS:.4f}"


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
