"""A breach that says of itself that it is a test."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.contract.money import NANO_PER_UNIT
from gpuledger.contract.records import Breach, BreachDriver
from gpuledger.notify.notice import NS_PER_S, Kind, Notice

DAY_NS = 86_400 * NS_PER_S


def trial(now_ns: int) -> tuple[Notice, Notice]:
    """It fires, and it is resolved."""
    firing = Breach(
        id=f"test-{now_ns}",
        change=1,
        state="firing",
        previous_state="pending",
        budget_id="test",
        budget_version=1,
        threshold_ppm=800_000,
        spent_nano=80 * NANO_PER_UNIT,
        amount_nano=100 * NANO_PER_UNIT,
        currency="EUR",
        period_start_ns=now_ns - DAY_NS,
        period_end_ns=now_ns + DAY_NS,
        since_ns=now_ns,
        window_start_ns=now_ns,
        drivers=[BreachDriver("pod", "test", "test-0", 80 * NANO_PER_UNIT, 10**13)],
        message="This is a test of gpuledger notify: no budget was crossed",
    )
    resolved = replace(firing, change=2, state="resolved", previous_state="firing")
    return Notice(Kind.FIRING, firing, now_ns), Notice(Kind.RESOLVED, resolved, now_ns)
