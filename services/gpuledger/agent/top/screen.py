"""A snapshot as a table for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpuledger.agent.top.activity import Consumer, Snapshot, seconds

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHOWN_ID = 12  # characters of a uid or container id that tell consumers of one node apart


def render(snapshot: Snapshot) -> RenderableType:
    """Devices, consumers, and one line that says what was lost."""
    length_s = seconds(snapshot)
    devices = _table("GPU", "model", "busy", "util", "SM active", "memory", "power")
    for device in snapshot.devices:
        used = "-" if device.memory_used_bytes is None else size(device.memory_used_bytes)
        devices.add_row(
            str(device.position),
            device.model or device.uuid,
            percent(device.busy_ratio),
            percent(device.utilization_ratio),
            percent(device.sm_active_ratio),
            f"{used} / {size(device.memory_total_bytes)}",
            "-" if device.power_watts is None else f"{device.power_watts:.0f} W",
        )
    consumers = _table(
        "consumer", "kind", "procs", "GPUs", "launches/s", "copied/s", "memory", "busy", "errors"
    )
    for consumer in snapshot.consumers:
        consumers.add_row(
            name(consumer),
            consumer.kind,
            str(consumer.processes),
            ",".join(map(str, consumer.devices)) or "-",
            f"{consumer.launches / length_s:.0f}",
            size(consumer.copied_bytes / length_s),
            size(consumer.memory_bytes),
            percent(consumer.busy_ratio),
            str(consumer.errors),
        )
    shown = [devices, consumers, *_runtime(snapshot, length_s)]
    foot = f"{snapshot.events / length_s:.0f} calls/s, {snapshot.lost} lost, over {length_s:.1f} s"
    return Group(*shown, Text(foot, style="bold red" if snapshot.lost else "dim"))


def _runtime(snapshot: Snapshot, length_s: float) -> list[Table]:
    """Calls of the CUDA runtime by name, where they are counted; the same work as above under other names."""
    rows = [
        (name(consumer), function, f"{calls / length_s:.0f}")
        for consumer in snapshot.consumers
        for function, calls in sorted(consumer.runtime.items(), key=lambda item: (-item[1], item[0]))
    ]
    table = _table("consumer", "CUDA runtime", "calls/s")
    for row in rows:
        table.add_row(*row)
    return [table] if rows else []


def _table(*names: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, column in enumerate(names):
        table.add_column(column, justify="left" if place < 2 else "right", no_wrap=True)
    return table


def name(consumer: Consumer) -> str:
    """What people call a consumer: its pod, else its program, else its id."""
    if consumer.namespace:
        return f"{consumer.namespace}/{consumer.name}"
    known = consumer.consumer if consumer.kind == "host_process" else consumer.consumer[:_SHOWN_ID]
    return f"{known} ({consumer.name})" if consumer.name else known


def percent(ratio: float | None) -> str:
    """A ratio for people; a value that is missing is a dash and not 0."""
    return "-" if ratio is None else f"{ratio * 100:.0f} %"


def size(amount: float) -> str:
    """Bytes for people."""
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_UNITS[unit]}"
