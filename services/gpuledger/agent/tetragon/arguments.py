"""Which arguments of a probed function Tetragon is asked for, and in which order it tells them.

Tetragon's uprobes read the first five arguments, at the entry (pkg/sensors/tracing/genericuprobe.go), and an
event lists their values without names, in the order of the policy: one table makes the policy and reads the
events.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gpuledger.agent.probes.driver_api import SYMBOLS
from gpuledger.agent.probes.symbol import SILENT, Effect, Entry, Symbol

READABLE_ARGUMENTS: Final = 5
_ALLOCATES: Final = frozenset({Effect.ALLOCATE, Effect.ALLOCATE_PITCHED, Effect.ALLOCATE_PHYSICAL})
_FUNCTION_OF_ENTRY: Final = {Entry.LAUNCH: 1, Entry.LAUNCH_CONFIG: 2}
"""Where the kernel's handle is, from 1, of functions whose own program knows it."""


class Argument(NamedTuple):
    """``place`` from 0; ``type`` as Tetragon names it."""

    name: str
    place: int
    type: str


def traced_symbols() -> list[Symbol]:
    """What is worth an event: not what only fills tables of the kernel side, and no queries, of which the
    answer alone says anything and which polling programs ask without end."""
    return [symbol for symbol in SYMBOLS if symbol.effect not in SILENT and symbol.effect is not Effect.QUERY]


def arguments_of(symbol: Symbol) -> tuple[Argument, ...]:
    """The arguments that are asked for. Sizes of allocations are not: neither whether they were given is told
    nor which free belongs to them."""
    sized = symbol.effect not in _ALLOCATES and symbol.entry is Entry.CALL
    size = symbol.bytes if sized and max(symbol.bytes, symbol.rows) <= READABLE_ARGUMENTS else 0
    places = {
        "bytes": size,
        "rows": symbol.rows if size else 0,
        "device": symbol.device,
        "function": symbol.function or _FUNCTION_OF_ENTRY.get(symbol.entry, 0),
        "stream": symbol.stream,
    }
    found = [
        Argument(name, place - 1, "int" if name == "device" else "uint64")
        for name, place in places.items()
        if 0 < place <= READABLE_ARGUMENTS
    ]
    return tuple(sorted(found, key=lambda argument: argument.place))
