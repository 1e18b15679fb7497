"""A snapshot as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from gpuledger.agent.top.activity import Consumer, Snapshot, seconds

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
WIDE: Final = 100
"""Characters of a line that has room for the kind of a consumer too."""
_NAMES: Final = frozenset({"model", "consumer", "CUDA runtime"})
_WORDS: Final = frozenset({"GPU", "kind"})
_SHOWN_ID = 12  # characters of a uid or container id that tell consumers of one node apart


class Screen:
    """A snapshot, for the width that there is: names are folded, numbers never cut."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Devices, consumers, and one line that says what was lost."""
        snapshot, length_s = self._snapshot, seconds(self._snapshot)
        yield _devices(snapshot) if snapshot.devices else Text("no GPU is known", style="yellow")
        if snapshot.consumers:
            yield _consumers(snapshot, length_s, with_kind=options.max_width >= WIDE)
        else:
            yield Text("nobody uses a GPU", style="dim")
        yield from _runtime(snapshot, length_s)
        if snapshot.nvml_problem:
            yield Text(f"nothing measured: {snapshot.nvml_problem.partition(';')[0]}", style="yellow")
        foot = f"{snapshot.events / length_s:.0f} calls/s, {snapshot.lost} lost, over {length_s:.1f} s"
        yield Text(foot, style="bold red" if snapshot.lost else "dim")


def render(snapshot: Snapshot) -> RenderableType:
    """The snapshot on a screen."""
    return Screen(snapshot)


def _devices(snapshot: Snapshot) -> Table:
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
    return devices


def _consumers(snapshot: Snapshot, length_s: float, with_kind: bool) -> Table:
    kind = ["kind"] if with_kind else []
    consumers = _table(
        "consumer", *kind, "procs", "GPUs", "launches/s", "copied/s", "memory", "busy", "errors"
    )
    for consumer in snapshot.consumers:
        consumers.add_row(
            name(consumer),
            *([consumer.kind] if with_kind else []),
            str(consumer.processes),
            runs(consumer.devices) or "-",
            f"{consumer.launches / length_s:.0f}",
            size(consumer.copied_bytes / length_s),
            size(consumer.memory_bytes),
            percent(consumer.busy_ratio),
            str(consumer.errors),
        )
    return consumers


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
    for column in names:
        if column in _NAMES:
            table.add_column(column, justify="left", overflow="fold")
        else:
            table.add_column(column, justify="left" if column in _WORDS else "right", no_wrap=True)
    return table


def name(consumer: Consumer) -> str:
    """What people call a consumer: its pod, else its program with its pid, else its id."""
    if consumer.namespace:
        return f"{consumer.namespace}/{consumer.name}"
    if consumer.kind == "host_process":
        known = f"pid {consumer.consumer.partition('-')[0]}"  # what else is in it tells pids that come again
        return f"{consumer.name} ({known})" if consumer.name else known
    known = consumer.consumer[:_SHOWN_ID]
    return f"{known} ({consumer.name})" if consumer.name else known


def runs(numbers: Sequence[int]) -> str:
    """Numbers in ascending order, three and more in a row as one: 0-3,7."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in found)


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
