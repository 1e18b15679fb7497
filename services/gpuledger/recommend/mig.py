"""Layouts of MIG instances that leave no slice over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gpuledger.contract.gpu_models import profiles_of

# By slices of the GPU, largest instance first: NVIDIA's MIG user guide, valid combinations.
_FULL: Final[Mapping[int, Sequence[tuple[int, ...]]]] = {
    7: ((4, 3), (4, 2, 1), (4, 1, 1, 1), (3, 2, 1, 1), (2, 2, 2, 1), (3, 1, 1, 1, 1), (2, 2, 1, 1, 1),
        (2, 1, 1, 1, 1, 1), (1,) * 7),
    4: ((2, 2), (2, 1, 1), (1,) * 4),
    2: ((1, 1),),
}  # fmt: skip


def full_layout(gpu_model: str, slices: Sequence[int]) -> dict[str, int] | None:
    """A layout (profile -> count) without stranded slices in which each of these instances has a place at
    least as large; None where the model is not known or nothing fits."""
    profiles = profiles_of(gpu_model)
    if not profiles:
        return None
    wanted = sorted(slices, reverse=True)
    for layout in sorted(_FULL[profiles[0].slices_total], key=lambda layout: abs(len(layout) - len(wanted))):
        if len(layout) >= len(wanted) and all(a >= b for a, b in zip(layout, wanted, strict=False)):
            names = {profile.slices: profile.name for profile in reversed(profiles)}
            return {names[size]: layout.count(size) for size in dict.fromkeys(layout)}
    return None
