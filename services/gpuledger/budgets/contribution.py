"""What one window counts for each meter: the link between a ledger's rows and budgets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.budgets.catalog import Meter, Plan
from gpuledger.budgets.lines import Driver, Lines
from gpuledger.budgets.rates import Rates


class Counted(NamedTuple):
    """What is counted for a meter: in the budget's currency, in GPU time, and what no rate leads from."""

    nano: int = 0
    gpu_ns: int = 0
    unconverted_nano: int = 0


@dataclass(slots=True)
class Contribution:
    """Of one window: what is counted, and from whom (money and GPU-ns), by the meters' keys."""

    counted: dict[str, Counted] = field(default_factory=dict)
    drivers: dict[str, dict[Driver, tuple[int, int]]] = field(default_factory=dict)


def contribution(
    plan: Plan, rates: Rates, cluster: str, start_ns: int, lines: Lines, foreign_only: bool = False
) -> Contribution:
    """What the lines of a window count. A function of its arguments alone, so that it can be taken back.

    ``foreign_only``: for meters in another currency than a line's alone.
    """
    money: dict[tuple[Meter, str], int] = {}
    gpu_ns: dict[Meter, int] = {}
    found = Contribution()
    for payer, amounts in lines:
        for meter in plan.meters_of(cluster, payer):
            if not meter.is_effective(start_ns) or meter.period(start_ns) is None:
                continue
            if foreign_only and not meter.is_foreign(payer.currency):
                continue
            time_ns = meter.gpu_ns(amounts)
            gpu_ns[meter] = gpu_ns.get(meter, 0) + time_ns
            nano = 0
            if meter.money:
                nano = meter.nano(amounts)
                money[meter, payer.currency] = money.get((meter, payer.currency), 0) + nano
                nano = rates.convert(nano, payer.currency, meter.budget.currency, start_ns) or 0
            if (nano or time_ns) and (payer.pod or payer.workload):
                drivers = found.drivers.setdefault(meter.key, {})
                driver = Driver(payer.namespace, payer.workload, payer.pod)
                before = drivers.get(driver, (0, 0))
                drivers[driver] = (before[0] + nano, before[1] + time_ns)
    for meter, time_ns in gpu_ns.items():
        found.counted[meter.key] = Counted(0, time_ns, 0)
    for (meter, currency), nano in money.items():
        so_far = found.counted[meter.key]
        converted = rates.convert(nano, currency, meter.budget.currency, start_ns)
        if converted is None:
            counted = so_far._replace(unconverted_nano=so_far.unconverted_nano + nano)
        else:
            counted = so_far._replace(nano=so_far.nano + converted)
        found.counted[meter.key] = counted
    found.counted = {key: counted for key, counted in found.counted.items() if any(counted)}
    return found
