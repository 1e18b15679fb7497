"""The Faust worker of budgets: one stream over gpu.charges, one over gpu.budget-subtotals."""

from __future__ import annotations

import faust

from gpuledger.budgets.engine import Engine
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.bus import BusSettings
from gpuledger.contract.topics import BUDGET_SUBTOTALS, CHARGES
from gpuledger.processor.shell import faust_app
from gpuledger.serving.watch import Watch


def make_app(bus: BusSettings, settings: BudgetSettings, warehouse_url: str, watch: Watch) -> faust.App:
    """The application; run it with ``Worker``. Any error that is not a record's stops it."""
    topics = [CHARGES, BUDGET_SUBTOTALS]
    return faust_app(bus, settings, topics, lambda: Engine(bus, settings, warehouse_url), watch)
