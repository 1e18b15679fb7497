"""MIG profiles by GPU model, and the memory of models without MIG.

Source: NVIDIA's MIG user guide, tables of supported profiles; memory from the boards' data sheets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

GIB = 1 << 30


class MigProfile(NamedTuple):
    """A profile: slices of the model's ``slices_total``, memory, and how many a GPU can have."""

    name: str
    slices: int
    slices_total: int
    memory_bytes: int
    per_gpu: int

    @property
    def share(self) -> float:
        """Its part of the GPU's cost: its slices."""
        return self.slices / self.slices_total


def _seven(*memory: int) -> tuple[MigProfile, ...]:
    """1g, 1g with twice the memory, 2g, 3g, 4g, 7g of a GPU of seven slices, by their GB."""
    shapes = ((1, 7), (1, 4), (2, 3), (3, 2), (4, 1), (7, 1))
    return tuple(
        MigProfile(f"{slices}g.{size}gb", slices, 7, size * GIB, count)
        for (slices, count), size in zip(shapes, memory, strict=True)
    )


_BY_MODEL: Final[Sequence[tuple[tuple[str, ...], tuple[MigProfile, ...]]]] = (
    (("H200",), _seven(18, 35, 35, 71, 71, 141)),
    (("H100", "80GB"), _seven(10, 20, 20, 40, 40, 80)),
    (("A100", "80GB"), _seven(10, 20, 20, 40, 40, 80)),
    (("A100", "40GB"), _seven(5, 10, 10, 20, 20, 40)),
    (("A30",), tuple(
        MigProfile(f"{s}g.{6 * s}gb", s, 4, 6 * s * GIB, 4 // s) for s in (1, 2, 4)
    )),
)  # fmt: skip
"""Words that a model's name has, and its profiles."""

_MEMORY_GIB: Final[Mapping[str, int]] = {"T4": 16, "L4": 24, "A10G": 24, "A10": 24, "L40S": 48, "V100": 16}

# Layouts that leave no slice over, largest instance first: NVIDIA's MIG user guide, valid combinations.
_FULL: Final[Mapping[int, Sequence[tuple[int, ...]]]] = {
    7: ((4, 3), (4, 2, 1), (4, 1, 1, 1), (3, 2, 1, 1), (2, 2, 2, 1), (3, 1, 1, 1, 1), (2, 2, 1, 1, 1),
        (2, 1, 1, 1, 1, 1), (1,) * 7),
    4: ((2, 2), (2, 1, 1), (1,) * 4),
}  # fmt: skip


def profiles_of(gpu_model: str) -> tuple[MigProfile, ...]:
    """The profiles of a model, such as ``NVIDIA H100 80GB HBM3``; none without MIG or if not known."""
    named = _words(gpu_model)  # GH200 is no H200
    return next((profiles for words, profiles in _BY_MODEL if named.issuperset(words)), ())


def memory_of_model(gpu_model: str) -> int:
    """Bytes of a model without MIG; 0 where it is not known."""
    named = _words(gpu_model)
    return next((size * GIB for name, size in _MEMORY_GIB.items() if name in named), 0)


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


def _words(gpu_model: str) -> set[str]:
    """``NVIDIA A100-SXM4-40GB`` has four."""
    return set(gpu_model.replace("-", " ").split())
