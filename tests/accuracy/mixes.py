"""The named mixes: which processes share which device, and how.

Each has two sets of parameters. ``tuned`` is that of the emulator study, which the estimators were made with;
``held_out`` has others, and each of its durations, bursts, pauses and rates is varied by the seed, so that
there is always a set on which nothing was tuned.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from tests.emulator import H100, DeviceSpec, mig_slice

MPS = DeviceSpec(mode="mps")


@dataclass(frozen=True)
class Program:
    """A process: arguments of the emulator's workload, its device among the mix's, and its booking.

    ``percentage`` is its MPS thread percentage; ``dies``: it is killed in the middle of the last window;
    ``booked`` False: it holds nothing.
    """

    arguments: str
    device: int = 0
    booked: bool = True
    percentage: int | None = None
    dies: bool = False


@dataclass(frozen=True)
class Mix:
    """``devices`` as the emulator makes them; ``synchronises``: every process waits for its work soon."""

    name: str
    programs: tuple[Program, ...]
    devices: tuple[DeviceSpec, ...] = (H100,)
    sharing: str = "time_slicing"
    synchronises: bool = True

    @property
    def by_sm_time(self) -> bool:
        """Whether shares are of SM-time, not of time."""
        return self.sharing == "mps"


@dataclass(frozen=True)
class _Sketch:
    """A mix before its numbers: one list of arguments a process and set of parameters."""

    name: str
    tuned: tuple[str, ...]
    held_out: tuple[str, ...]
    more: dict[int, dict[str, object]] = field(default_factory=dict)  # of a process
    percentages: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    devices: tuple[DeviceSpec, ...] = (H100,)
    sharing: str = "time_slicing"
    synchronises: bool = True


def _train(burst: int, duration_us: int, gap_us: int, more: str = "") -> str:
    return f"train --burst {burst} --duration-us {duration_us} --gap-us {gap_us} {more}".strip()


def _infer(rate: int, burst: int, duration_us: int, more: str = "") -> str:
    return f"infer --rate {rate} --burst {burst} --duration-us {duration_us} {more}".strip()


def _tiny(rate: int, burst: int, sync_every: int, duration_us: int = 10) -> str:
    when = f"--rate {rate} --burst {burst} --sync-every {sync_every}"
    return f"tiny --duration-us {duration_us} {when} --launch-threads 1024"


T = _train(20, 1000, 5000)
H = _train(30, 700, 8000)
_SKETCHES = (
    _Sketch("two trainers, equal", (T, T), (H, H)),
    _Sketch("two trainers, unequal", (T, _train(5, 500, 10000)), (H, _train(8, 300, 15000))),
    _Sketch(
        "three trainers, unequal",
        (T, _train(10, 2000, 20000), _train(40, 200, 10000, "--launch-threads 8192")),
        (H, _train(6, 3000, 30000), _train(25, 300, 7000, "--launch-threads 4096")),
    ),
    _Sketch(
        "two trainers, low duty",
        (_train(5, 800, 30000), _train(10, 400, 20000)),
        (_train(4, 600, 40000), _train(12, 500, 60000)),
    ),
    _Sketch(
        "four sharers",
        (T, _train(10, 800, 25000), _infer(20, 3, 900), _train(4, 500, 12000)),
        (H, _train(7, 1100, 40000), _infer(12, 5, 600), _train(3, 900, 20000)),
    ),
    _Sketch(
        "asynchronous hog + trainer",
        ("hog --duration-us 3000", T),
        ("hog --duration-us 4500 --sync-every 300", H),
    ),
    _Sketch(
        "bursty inference + trainer",
        (_infer(30, 4, 1500, "--launch-threads 16384"), T),
        (_infer(18, 6, 1200, "--launch-threads 16384"), H),
    ),
    _Sketch(
        "tiny synchronous + long kernels",
        (_tiny(2000, 1, 1), _train(10, 5000, 5000)),
        (_tiny(1200, 1, 1, 15), _train(6, 8000, 9000)),
    ),
    _Sketch(
        "tiny, never synchronising + trainer",
        (_tiny(5000, 1, 0), T),
        (_tiny(3000, 1, 0, 14), H),
        synchronises=False,
    ),
    _Sketch(
        "trainer + inference + tiny + idle",
        (T, _infer(20, 3, 1500, "--launch-threads 16384"), _tiny(1000, 5, 1), "idle"),
        (H, _infer(15, 5, 1000, "--launch-threads 16384"), _tiny(700, 4, 1, 14), "idle"),
    ),
    _Sketch(
        "late synchronise + trainer",
        ("late --burst 5 --duration-us 1000 --gap-us 40000", _train(10, 1000, 20000)),
        ("late --burst 8 --duration-us 800 --gap-us 60000", _train(14, 900, 15000)),
        synchronises=False,
    ),
    _Sketch(
        "never synchronises, 10 % duty + trainer",
        ("nosync --burst 2 --duration-us 1000 --gap-us 20000", T),
        ("nosync --burst 3 --duration-us 900 --gap-us 35000", H),
        synchronises=False,
    ),
    _Sketch(
        "polls events and streams + trainer",
        (_train(10, 900, 10000, "--sync poll-event"), _train(6, 1500, 15000, "--sync poll-stream"), T),
        (_train(16, 600, 14000, "--sync poll-event"), _train(5, 1300, 25000, "--sync poll-stream"), H),
    ),
    _Sketch(
        "graphs + several streams",
        (_train(20, 600, 6000, "--graph"), _train(12, 1200, 9000, "--streams 4")),
        (_train(32, 500, 9000, "--graph"), _train(9, 1000, 14000, "--streams 3")),
    ),
    _Sketch(
        "work across window borders",
        (_train(60, 50000, 700000), _train(30, 40000, 300000)),
        (_train(45, 60000, 500000), _train(70, 30000, 900000)),
    ),
    _Sketch(
        "one dies in the middle",
        (T, _train(10, 1500, 12000)),
        (H, _train(8, 1100, 9000)),
        more={1: {"dies": True}},
    ),
    _Sketch(
        "off the books beside a holder",
        (T, _train(8, 900, 20000)),
        (H, _train(12, 700, 30000)),
        more={1: {"booked": False}},
        sharing="exclusive",
    ),
    _Sketch(
        "two MIG instances",
        (T, _train(6, 1500, 25000), _infer(25, 3, 1200)),
        (H, _train(9, 1000, 30000), _infer(18, 4, 900)),
        more={0: {"device": 1}, 1: {"device": 2}, 2: {"device": 2}},
        devices=(H100, mig_slice(0, 1, 3), mig_slice(0, 2, 4)),
    ),
    _Sketch("MPS 50/50", (T, T), (H, H), percentages=((50, 50), (50, 50)), devices=(MPS,), sharing="mps"),
    _Sketch(
        "MPS 30/70 + light inference",
        (_train(20, 500, 5000), _train(20, 500, 5000), _infer(30, 4, 500, "--sms 40")),
        (_train(24, 400, 7000), _train(16, 600, 9000), _infer(20, 5, 600, "--sms 30")),
        percentages=((30, 70, 100), (40, 60, 100)),
        devices=(MPS,),
        sharing="mps",
    ),
)


_NUMBERS = re.compile(r"--(duration-us|burst|gap-us|rate) (\d+)")
_VARIED = (0.75, 1.35)  # times the number in the table


def _varied(text: str, rng: random.Random) -> str:
    return _NUMBERS.sub(lambda one: f"--{one[1]} {max(1, round(int(one[2]) * rng.uniform(*_VARIED)))}", text)


def mixes(held_out: bool = False, seed: int = 1) -> list[Mix]:
    """All mixes with one set of parameters; ``seed`` is that of processes, and of what is varied."""
    rng = random.Random(seed)
    found = []
    for number, sketch in enumerate(_SKETCHES):
        arguments = [_varied(text, rng) for text in sketch.held_out] if held_out else list(sketch.tuned)
        percentages = sketch.percentages[held_out] or (None,) * len(arguments)
        programs = tuple(
            Program(
                f"{text} --seed {seed + 100 * number + place}", percentage=share, **sketch.more.get(place, {})
            )
            for place, (text, share) in enumerate(zip(arguments, percentages, strict=True))
        )
        found.append(Mix(sketch.name, programs, sketch.devices, sketch.sharing, sketch.synchronises))
    return found
