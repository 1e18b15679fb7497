"""How pods use GPUs, in proportions that public traces of real fleets show.

Of the time of serving pods 66.8 % was at exactly 0 % compute, and the mean was 7.0 % (Alibaba GenTD26,
SoCC'25); of 3 million instances of a training and serving cluster the mean was 10.5 %, the median 1.5 %
(Alibaba PAI v2020, NSDI'22). Both as affinode.io's analyses of the published traces have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.contract.windows import NS_PER_S

_MS = NS_PER_S // 1000


@dataclass(frozen=True, slots=True)
class Profile:
    """A way to use a GPU: in a part ``awake`` of the windows, episodes of about ``episode_ns`` at times
    ``period_ns`` apart, of ``launches`` launches each; else nothing but memory."""

    name: str
    workload_kind: str
    share: float
    awake: float
    episode_ns: int
    period_ns: int
    launches: int
    sm_active: float
    """SM active while it is busy."""


PROFILES = (
    Profile("idle", "Deployment", 0.42, 0.0, _MS, NS_PER_S, 1, 0.0),
    Profile("inference", "Deployment", 0.38, 0.45, 25 * _MS, 400 * _MS, 6, 0.45),
    Profile("notebook", "StatefulSet", 0.13, 0.10, 120 * _MS, 900 * _MS, 12, 0.3),
    Profile("training", "Job", 0.07, 0.97, 180 * _MS, 230 * _MS, 24, 0.7),
)
INTRUDER = Profile("intruder", "", 0.0, 0.6, 60 * _MS, 500 * _MS, 8, 0.5)
_BORDERS = np.cumsum([profile.share for profile in PROFILES])


def pick(random: np.random.Generator) -> Profile:
    """A profile at random, in proportion."""
    place = int(np.searchsorted(_BORDERS, random.random() * _BORDERS[-1], side="right"))
    return PROFILES[min(place, len(PROFILES) - 1)]
