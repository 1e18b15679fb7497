"""Budgets: what counts for them, when a line is crossed, and the life of a breach.

The core is pure: ``Catalog`` (budgets by version), ``PartitionCount`` (first stage: one partition of
gpu.charges), ``Sums``, ``Lives`` and ``Judge`` (second stage). The shell around it is
``gpuledger.budgets.app``.
"""

from gpuledger.budgets.catalog import Catalog, Meter
from gpuledger.budgets.condition import Condition
from gpuledger.budgets.conditions import conditions
from gpuledger.budgets.counting import PartitionCount
from gpuledger.budgets.judge import Judge
from gpuledger.budgets.lines import Lines, Replaced, Window, WindowCharges, lines_of
from gpuledger.budgets.lives import Lives
from gpuledger.budgets.notes import Notes
from gpuledger.budgets.sums import Sums

__all__ = [
    "Catalog",
    "Condition",
    "Judge",
    "Lines",
    "Lives",
    "Meter",
    "Notes",
    "PartitionCount",
    "Replaced",
    "Sums",
    "Window",
    "WindowCharges",
    "conditions",
    "lines_of",
]
