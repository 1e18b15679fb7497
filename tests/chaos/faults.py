"""Which fault comes when, from a seed: kills, freezes, absences, broken connections, each with its end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

MEAN_PAUSE_S = 1.5  # between the beginnings of two faults: recoveries overlap with the next fault
KAFKA_PAUSE_S = 12.0  # after Kafka is back: else nothing but its absence would be tested


class Kind(NamedTuple):
    """A kind of fault: what begins it, what ends it, how long it lasts, how often it comes."""

    begin: str
    end: str
    shortest_s: float
    longest_s: float
    weight: float


class Step(NamedTuple):
    """One thing to do to one target at one time since the start."""

    at_s: float
    do: str
    target: str


# A frozen member of a group is given up after 6 s: from then on it is a zombie.
KINDS = {
    "worker": (Kind("kill", "revive", 0, 6, 3), Kind("freeze", "thaw", 7, 13, 3)),
    "budgets": (Kind("kill", "revive", 0, 5, 1.5), Kind("freeze", "thaw", 7, 12, 1)),
    "sink": (Kind("kill", "revive", 0, 5, 1.5), Kind("freeze", "thaw", 7, 12, 1)),
    "node": (
        Kind("kill", "revive", 0, 9, 3),
        Kind("freeze", "thaw", 1, 9, 2),
        Kind("stop", "revive", 0, 5, 1),
        Kind("strand", "lose", 2, 7, 1),
        Kind("step_ahead", "step_back", 3, 7, 1),
        Kind("step_behind", "step_back", 3, 7, 1),
        Kind("leap_ahead", "step_back", 3, 7, 0.7),
        Kind("leap_behind", "step_back", 3, 7, 0.7),
        Kind("twin", "untwin", 5, 10, 1.5),
    ),
    "kafka": (Kind("kill", "revive", 0, 4, 1.2), Kind("freeze", "thaw", 1, 9, 0.8)),
    "registry": (Kind("kill", "revive", 1, 10, 1), Kind("freeze", "thaw", 1, 8, 0.8)),
    "warehouse": (Kind("kill", "revive", 0, 6, 1.2), Kind("freeze", "thaw", 1, 8, 0.8)),
    "link": (
        Kind("cut", "join", 0.5, 6, 2),
        Kind("hold", "join", 1, 9, 1.5),
        Kind("mute", "join", 1, 8, 1.5),
        Kind("mute", "sever", 1, 8, 1.5),
    ),
    "inserts": (Kind("refuse_parts", "accept", 1, 8, 0.7), Kind("refuse_writes", "accept", 1, 8, 0.7)),
    "disk": (Kind("fill", "free", 1, 8, 1.5),),
    "store": (Kind("fill", "free", 4, 10, 0.8),),  # a broker takes some seconds to end
    "log": (Kind("repeat", "nothing", 0, 0, 1),),
}
PROCESSES = frozenset({"worker", "budgets", "sink", "node", "kafka", "registry", "warehouse"})
BROKER = frozenset({"kafka", "store"})
POWER_CUT_CHANCE = 0.2  # of a fault that finds all whole to be the end of all processes at once


def schedule(seed: int, seconds: float, targets: Sequence[str]) -> list[Step]:
    """Steps in order of time. A target that is broken is not broken once more before it is back."""
    chance = random.Random(seed)
    free_at = dict.fromkeys(targets, 0.0)
    steps: list[Step] = []
    at = 0.0
    while (at := at + chance.expovariate(1 / MEAN_PAUSE_S)) < seconds:
        free = [target for target in targets if free_at[target] <= at]
        if len(free) == len(targets) and chance.random() < POWER_CUT_CHANCE:
            back = at + 0.5 + chance.uniform(0, 4)
            for target in (target for target in targets if _family(target) in PROCESSES):
                steps += [Step(at, "kill", target), Step(back + chance.uniform(0, 2), "revive", target)]
                free_at[target] = back + KAFKA_PAUSE_S
            at = back
            continue
        choices = [(target, kind) for target in free for kind in KINDS[_family(target)]]
        if not choices:
            continue
        weights = [_weight(target, kind, targets) for target, kind in choices]
        target, kind = chance.choices(choices, weights)[0]
        lasts = chance.uniform(kind.shortest_s, kind.longest_s)
        steps += [Step(at, kind.begin, target), Step(at + lasts, kind.end, target)]
        free_at[target] = at + lasts + (KAFKA_PAUSE_S if _family(target) in BROKER else 1.0)
    return sorted(steps, key=lambda step: step.at_s)  # what begins and ends at once stays in order


def _family(target: str) -> str:
    return target.partition("-")[0]


def _weight(target: str, kind: Kind, targets: Sequence[str]) -> float:
    return kind.weight / sum(_family(other) == _family(target) for other in targets)
