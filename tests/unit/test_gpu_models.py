"""What is known of GPU models: the tables of NVIDIA's MIG user guide, by the names that the driver gives."""

from __future__ import annotations

import pytest

from gpuledger.contract.gpu_models import GIB, memory_of_model, profiles_of
from gpuledger.recommend.mig import full_layout

SEVEN = (7, 4, 3, 2, 1, 1)  # instances a GPU of 1g, 1g with twice the memory, 2g, 3g, 4g, 7g


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("NVIDIA H100 80GB HBM3", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("NVIDIA H100 PCIe", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("NVIDIA H100 NVL", "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
        ("NVIDIA H100 96GB HBM3", "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("NVIDIA GH200 480GB", "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("NVIDIA GH200 144G HBM3e", "1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb"),
        ("NVIDIA H20", "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
        ("NVIDIA H200 NVL", "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("NVIDIA B200", "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
        ("NVIDIA GB200", "1g.24gb 1g.47gb 2g.47gb 3g.95gb 4g.95gb 7g.189gb"),
        ("NVIDIA B300 SXM6 AC", "1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb"),
        ("NVIDIA A100-SXM4-40GB", "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        ("NVIDIA A100 80GB PCIe", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    ],
)
def test_a_board_of_seven_slices_has_its_profiles(model: str, names: str) -> None:
    found = profiles_of(model)
    assert " ".join(one.name for one in found) == names
    assert tuple(one.per_gpu for one in found) == SEVEN
    assert found[-1].share == 1


@pytest.mark.parametrize(
    ("model", "names", "layout"),
    [
        ("NVIDIA A30", "1g.6gb 2g.12gb 4g.24gb", {"2g.12gb": 1, "1g.6gb": 2}),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "1g.24gb 2g.48gb 4g.96gb",
            {"2g.48gb": 1, "1g.24gb": 2},
        ),
        ("NVIDIA RTX PRO 5000 Blackwell", "1g.24gb 2g.48gb", None),
        ("NVIDIA RTX PRO 4500 Blackwell", "1g.16gb 2g.32gb", None),
    ],
)
def test_a_board_of_fewer_slices_has_its_own(model: str, names: str, layout: dict[str, int] | None) -> None:
    found = profiles_of(model)
    assert " ".join(one.name for one in found) == names
    assert [one.slices * one.per_gpu for one in found] == [found[-1].slices_total] * len(found)
    assert full_layout(model, [2, 1, 1]) == layout


@pytest.mark.parametrize(
    ("model", "gib"),
    [
        ("NVIDIA L40", 48),
        ("NVIDIA L40S", 48),
        ("NVIDIA A40", 48),
        ("NVIDIA RTX 6000 Ada Generation", 48),
        ("NVIDIA RTX A6000", 48),
        ("Quadro RTX 6000", 24),
        ("NVIDIA A16", 16),
        ("NVIDIA A2", 16),
        ("Tesla V100-SXM2-32GB", 32),
        ("Tesla V100-SXM2-16GB", 16),
        ("NVIDIA A40-12Q", 0),
        ("NVIDIA H20-3e", 0),
        ("NVIDIA Graphics Device", 0),
    ],
)
def test_models_without_mig_have_the_memory_of_the_board_and_parts_of_one_none(model: str, gib: int) -> None:
    assert memory_of_model(model) == gib * GIB
    assert profiles_of(model) == ()
