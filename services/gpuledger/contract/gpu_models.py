"""GPU models: their MIG profiles, and the memory of those without MIG. Values only.

Sources: NVIDIA's MIG user guide, "Supported MIG Profiles" (docs.nvidia.com/datacenter/tesla/mig-user-guide,
release 610): A30, A100, H100 80, 94 and 96 GB, H200, B200, RTX PRO 4500, 5000 and 6000 Blackwell. Its
"Supported GPUs" names H20 beside the 96 GB boards. What it has no table of: H800, A800, GH200 144G and GB200
by nvidia-mig-parted's deployments/systemd/config-default.yaml; B300 by the release notes of the GPU operator
25.10. Memory of other models from NVIDIA's data sheets, a GPU's own of boards that have several (A16).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

GIB = 1 << 30
_VGPU: Final = re.compile(r"\d+[ABCQ]")  # NVIDIA A40-12Q: a part of a board that its hypervisor cut


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


def _profiles(total: int, *shapes: tuple[int, int, int]) -> tuple[MigProfile, ...]:
    """By (slices, GB, how many a GPU can have)."""
    return tuple(
        MigProfile(f"{slices}g.{size}gb", slices, total, size * GIB, count) for slices, size, count in shapes
    )


def _seven(one: int, two: int, three: int, seven: int) -> tuple[MigProfile, ...]:
    """1g, 1g with twice the memory, 2g, 3g, 4g, 7g of a GPU of seven slices, by the GB of 1g, 2g, 3g and 7g:
    4g has the memory of 3g."""
    return _profiles(
        7, (1, one, 7), (1, two, 4), (2, two, 3), (3, three, 2), (4, three, 1), (7, seven, 1)
    )  # fmt: skip


_80GB = _seven(10, 20, 40, 80)
_94GB = _seven(12, 24, 47, 94)
_96GB = _seven(12, 24, 48, 96)
_BY_MODEL: Final[Sequence[tuple[str, tuple[MigProfile, ...]]]] = (
    ("B300", _seven(34, 67, 135, 269)),
    ("GB200", _seven(24, 47, 95, 189)),
    ("B200", _seven(23, 45, 90, 180)),
    ("GH200 144G", _seven(18, 36, 72, 144)),
    ("GH200", _96GB),  # the 480GB in its name are the CPU's
    ("H200", _seven(18, 35, 71, 141)),
    ("H100 NVL", _94GB),
    ("H100 94GB", _94GB),
    ("H100 96GB", _96GB),
    ("H100 80GB", _80GB),
    ("H100 PCIe", _80GB),
    ("H800 NVL", _94GB),
    ("H800", _80GB),
    ("H20 3e", ()),  # 141 GB, in no table
    ("H20", _96GB),
    ("A100 80GB", _80GB),
    ("A100 40GB", _seven(5, 10, 20, 40)),
    ("A800 80GB", _80GB),
    ("A800 40GB", _seven(5, 10, 20, 40)),
    ("A30", _profiles(4, (1, 6, 4), (2, 12, 2), (4, 24, 1))),
    ("RTX PRO 6000 Blackwell", _profiles(4, (1, 24, 4), (2, 48, 2), (4, 96, 1))),
    ("RTX PRO 5000 Blackwell", _profiles(2, (1, 24, 2), (2, 48, 1))),
    ("RTX PRO 4500 Blackwell", _profiles(2, (1, 16, 2), (2, 32, 1))),
)
"""Words that a model's name has, and its profiles; the first that fits."""

_MEMORY_GIB: Final[Mapping[str, int]] = {
    "RTX 6000 Ada": 48, "RTX 5880 Ada": 48, "RTX 5000 Ada": 32, "RTX 4500 Ada": 24, "RTX 4000 Ada": 20,
    "RTX A6000": 48, "RTX A5500": 24, "RTX A5000": 24, "RTX A4500": 20, "RTX A4000": 16,
    "Quadro RTX 8000": 48, "Quadro RTX 6000": 24, "Quadro RTX 5000": 16,
    "GeForce RTX 5090": 32, "GeForce RTX 4090": 24, "GeForce RTX 3090": 24,
    "L40S": 48, "L40": 48, "L20": 48, "L4": 24, "L2": 24,
    "A40": 48, "A16": 16, "A10G": 24, "A10": 24, "A2": 16,
    "T4": 16, "V100 32GB": 32, "V100": 16, "P40": 24, "P100": 12, "P4": 8,
}  # fmt: skip
"""Words that the name of a model without MIG has, and its memory; of several sizes the least (P100)."""


def profiles_of(gpu_model: str) -> tuple[MigProfile, ...]:
    """The profiles of a model, such as ``NVIDIA H100 80GB HBM3``; none without MIG or if not known."""
    named = _words(gpu_model)  # GH200 is no H200
    return next((found for model, found in _BY_MODEL if named.issuperset(model.split())), ())


def memory_of_model(gpu_model: str) -> int:
    """Bytes of a model without MIG; 0 where it is not known, and of a part of a board (vGPU)."""
    named = _words(gpu_model)
    if any(_VGPU.fullmatch(word) for word in named):
        return 0
    return next((size * GIB for model, size in _MEMORY_GIB.items() if named.issuperset(model.split())), 0)


def _words(gpu_model: str) -> set[str]:
    """``NVIDIA A100-SXM4-40GB`` has four."""
    return set(gpu_model.replace("-", " ").split())
