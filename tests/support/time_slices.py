"""A device that is shared in time slices, with a known truth: which process ran when, and what it called.

Kernels of one process run one after the other; a process with work keeps the device for a slice, then the
next in turn has it. A program launches, waits for its work (or never does), pauses, and begins again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.contract.operations import Operation
from tests.support.charging import Calls, S

SLICE_S = 0.002


@dataclass(slots=True)
class Program:
    """``kernels`` of ``kernel_s`` seconds each, then a pause; ``waits``: it synchronises before the pause."""

    kernels: int
    kernel_s: float
    pause_s: float
    waits: bool = True
    starts_s: float = 0.0
    pending_s: float = field(default=0.0, init=False)
    launched_s: float = field(default=0.0, init=False)
    busy_s: float = field(default=0.0, init=False)


def run(programs: list[Program], calls: Calls, seconds: float = 10.0, threads: int = 256) -> list[float]:
    """Run ``programs`` as the processes of ``calls``, in their order, on the first device: what they call is
    added to ``calls``. Gives the seconds that each kept the device busy."""
    next_launch = [program.starts_s for program in programs]
    now, turn = 0.0, 0
    while now < seconds:
        for number, program in enumerate(programs):
            while next_launch[number] <= now and (not program.waits or not program.pending_s):
                at = next_launch[number]
                for _ in range(program.kernels):
                    calls.call(Operation.LAUNCH_KERNEL, at, process=number, launched_threads=threads)
                program.pending_s += program.kernels * program.kernel_s
                program.launched_s = at
                next_launch[number] = float("inf") if program.waits else at + program.pause_s
        ready = [i for i, program in enumerate(programs) if program.pending_s > 0]
        if not ready:
            now = min(next_launch)
            continue
        turn = min(ready, key=lambda i: (i - turn - 1) % len(programs))
        program = programs[turn]
        spent = min(SLICE_S, program.pending_s)
        program.busy_s += max(0.0, min(spent, seconds - now))
        program.pending_s = 0.0 if program.pending_s - spent < 1e-9 else program.pending_s - spent
        now += spent
        if not program.pending_s and program.waits:
            if now <= seconds:
                waited = now - program.launched_s
                calls.call(Operation.SYNCHRONIZE_STREAM, now, waited, process=turn)
            next_launch[turn] = now + program.pause_s
    assert all(row["time_ns"] <= seconds * S for row in calls.rows)
    return [program.busy_s for program in programs]
