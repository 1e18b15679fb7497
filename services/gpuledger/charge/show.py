"""A bill as a table that a team lead reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuledger.charge.bill import PARTS, Bill, Line, sum_of, team_sums
from gpuledger.charge.words import (
    device_of,
    evidence_of,
    gib,
    hours,
    instant_of,
    percent,
    remarks_of,
    who_of,
)
from gpuledger.contract.money import format_nano
from gpuledger.tables import fitted

COLUMNS = (
    "GPU", "who", "team", "holds %", "used %", "used", "held idle", "unallocated", "unobserved", "total",
    "SM active %", "memory", "known by", "notes",
)  # fmt: skip
DROPPABLE = (
    "memory", "known by", "SM active %", "holds %", "used %", "unobserved", "unallocated", "team", "node",
)  # fmt: skip
"""In the order in which a narrow terminal goes without them."""
_TEAM_DROPPABLE = ("GPU-hours", "unobserved", "unallocated")
_FOLDED = {"node": 8, "who": 16, "team": 6}
"""Columns whose texts are folded where they are long, and their least width in characters."""
_LEFT = {*_FOLDED, "GPU", "known by", "notes"}
_MONEY_DIGITS = 4
_ROUNDING = 1000  # nano or ns; no window, and no digit that is shown, has so little


def print_bill(console: Console, bill: Bill, assumed: Sequence[str]) -> None:
    """The bill by GPU and consumer, by team, and what was assumed, as wide as the console allows."""
    span = f"{instant_of(bill.start_ns)} to {instant_of(bill.end_ns)}, {hours(bill.end_ns - bill.start_ns)} h"
    unit = ", ".join(bill.currencies) or "GPU-hours"
    nodes = {(line.cluster, line.node) for line in bill.lines}
    where = f"{len(nodes)} nodes" if len(nodes) > 1 else bill.lines[0].node
    console.print(Text("Who pays", style="bold").append(f" ({unit}; {where}; {span})", style="not bold"))
    notes = _notes(bill)
    without = [] if len(nodes) > 1 else ["node"]
    make = partial(_lines_table, bill, notes, without)
    console.print(fitted(console.width, make, DROPPABLE), crop=False)
    for text, number in notes.items():
        console.print(f"  {number}  {text}", markup=False)
    hidden = sum(1 for line in bill.lines if not _visible(line))
    if hidden:
        console.print(f"Left out: {hidden} of mere rounding (--json has all).", style="dim")
    console.print(fitted(console.width, partial(_teams_table, bill), _TEAM_DROPPABLE), crop=False)
    if bill.unpriced_ns:
        missing = " They are not in the amounts." if bill.currencies else ""
        loud = Text(f"No price for {hours(bill.unpriced_ns)} GPU-hours", style="bold red")
        console.print(loud.append(f": {', '.join(_unpriced(bill))}.{missing}", style="not bold default"))
    for text in _memory(bill):
        console.print(text, markup=False)
    policies = ", ".join(sorted(set().union(*(line.policies for line in bill.lines))))
    console.print(f"Policy of idle and borrowed time: {policies}", markup=False)
    if assumed:
        console.print("Assumed:")
        for text in assumed:
            console.print(f"  - {text}", markup=False)
    if bill.conservation_error_nano or bill.conservation_error_ns:
        console.print(
            "[bold red]The lines do not add up to the price: this is a fault of gpuledger.[/bold red]"
        )


def _notes(bill: Bill) -> dict[str, int]:
    """Every remark that some line needs, numbered."""
    texts = dict.fromkeys(text for line in filter(_visible, bill.lines) for text in remarks_of(line))
    return {text: number for number, text in enumerate(texts, 1)}


def _lines_table(
    bill: Bill, notes: dict[str, int], never: Collection[str], without: Collection[str]
) -> Table:
    columns = [name for name in ("node", *COLUMNS) if name not in {*never, *without}]
    if not notes:
        columns.remove("notes")
    total = _amounts(sum_of(bill.lines), bool(bill.currencies)) | {"who": "total"}
    table = Table(show_footer=True, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in columns:
        table.add_column(
            name,
            justify="left" if name in _LEFT else "right",
            no_wrap=name not in _FOLDED,
            overflow="fold",
            min_width=_FOLDED.get(name),
            footer=total.get(name, ""),
            style="bold" if name == "total" else "",
        )
    for line in filter(_visible, bill.lines):
        cells = _cells(bill, line, notes)
        table.add_row(*(Text(cells[name]) for name in columns))
    return table


def _visible(line: Line) -> bool:
    """Whether a line has more than the rounding of the pool's: billionths of a second or of the currency."""
    amount = line.total_nano if line.priced else line.total_ns
    return not line.is_pool or amount > _ROUNDING


def _cells(bill: Bill, line: Line, notes: dict[str, int]) -> dict[str, str]:
    device = bill.by_device[line.device]
    device_ns = sum(one.total_ns for one in device)
    consumers = {one.key["consumer"] for one in device if not one.is_pool}
    return {
        "node": "/".join(filter(None, (line.cluster, line.node))),
        "GPU": device_of(line),
        "who": who_of(line),
        "team": "" if line.is_pool else line.said["team"],
        "holds %": "" if line.is_pool else percent(line.entitlement),
        "used %": percent(line.ns["used"] / device_ns) if device_ns and line.evidence != "none" else "",
        **_amounts(line, bool(bill.currencies)),
        "SM active %": _of_silicon(line, percent(line.mean("sm_active"))),
        "memory": _memory_of(line),
        "known by": evidence_of(line, len(consumers) == 1),
        "notes": " ".join(str(notes[text]) for text in remarks_of(line)),
    }


def _amounts(line: Line, money: bool) -> dict[str, str]:
    """Money of each part and of all, or GPU-hours where nothing of the bill has a price."""
    if not money:
        return {_head(part): hours(line.ns[part]) for part in PARTS} | {"total": hours(line.total_ns)}
    nano = {_head(part): line.nano[part] for part in PARTS} | {"total": line.total_nano}
    return {
        name: format_nano(value, _MONEY_DIGITS) if line.priced else "no price" for name, value in nano.items()
    }


def _head(part: str) -> str:
    return part.replace("_", " ")


def _of_silicon(line: Line, value: str) -> str:
    """A value of the device: a consumer's own only where it was alone there."""
    if line.is_pool or not value:
        return ""
    return value if line.alone else f"{value} of device"


def _memory_of(line: Line) -> str:
    if line.is_pool:
        return ""
    if line.memory_bytes is not None:
        return gib(line.memory_bytes)
    of_device = line.mean("framebuffer_used_bytes")
    return "" if of_device is None else f"{gib(of_device)} of device"


def _memory(bill: Bill) -> Iterator[str]:
    """What is resident without a holding."""
    if bill.unbooked:
        yield "Memory resident that nobody booked (the driver keeps some for itself):"
        for one in bill.unbooked:
            owner = one.owner
            size, most = gib(one.mean_bytes), gib(one.peak_bytes)
            size += "" if size == most else f" in the mean, {most} at most"
            yield f"  - {owner.node} {owner.device}: {size}, of {owner.who}"
    elif all(
        line.mean("framebuffer_used_bytes") is None and not line.memory_peak_bytes for line in bill.lines
    ):
        yield "Memory resident that nobody booked: not known, nothing measured memory (FB_USED)."
    else:
        yield "Memory resident that nobody booked: none was seen."


def _teams_table(bill: Bill, without: Collection[str]) -> Table:
    table = Table(title="By team", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1),
                  collapse_padding=True)  # fmt: skip
    names = [name for name in (*map(_head, PARTS), "total", "GPU-hours") if name not in without]
    table.add_column("team", overflow="fold", min_width=_FOLDED["who"])
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, style="bold" if name == "total" else "")
    for team, sums in team_sums(bill):
        cells = _amounts(sums, bool(bill.currencies)) | {"GPU-hours": hours(sums.total_ns)}
        table.add_row(Text(team), *(cells[name] for name in names))
    return table


def _unpriced(bill: Bill) -> list[str]:
    found = {
        line.said["gpu_model"] or line.said["instance_type"] or line.key["device"]
        for line in bill.lines
        if line.sums["unpriced_ns"]
    }
    return sorted(found)
