"""The life of each breach: pending, firing, resolved, retracted; each change is told once.

A breach is *retracted* where what was charged turned out otherwise: it should never have been told. It is
*resolved* where it was true and is over: the period ended, the pace fell, the budget was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuledger.budgets.catalog import IDLE
from gpuledger.budgets.condition import Condition
from gpuledger.budgets.notes import Notes, Said
from gpuledger.budgets.paces import forecast_of
from gpuledger.budgets.sums import Sums
from gpuledger.budgets.totals import PERIODS_UNDER_WAY
from gpuledger.budgets.words import BEFORE_VERSION, CROSSED, link_of, sentence
from gpuledger.contract.columns import LARGEST_LONG
from gpuledger.contract.records import Breach

PENDING, FIRING, RESOLVED, RETRACTED = "pending", "firing", "resolved", "retracted"
ALIVE = frozenset({PENDING, FIRING})
Step = tuple[str, str]
"""A state, and why it is entered."""


class Lives:
    """The last change of every breach, as gpu.breaches has it. One owner alone makes changes."""

    def __init__(self, link: str = "") -> None:
        self.notes = Notes()
        self._link = link
        self._last: dict[str, Breach] = {}
        self._begun: dict[str, int] = {}  # by id the change with which the life under way began

    def recall(self, breach: Breach) -> None:
        """Know a change that is told already."""
        known = self._last.get(breach.id)
        if known is None or known.change < breach.change:
            self._last[breach.id] = breach
            self._know_life(breach)

    def changes(self, found: Iterable[Condition], sums: Sums, complete: bool) -> list[Breach]:
        """The changes that follow, to be told in this order, and taken in with ``recall`` once they are.

        ``complete``: these are all conditions there are; what lives without one has lost its budget.
        """
        told: list[Breach] = []
        seen = set()
        for condition in found:
            seen.add(condition.id)
            last = self._last.get(condition.id)
            for state, why in _steps(condition, last, sums.newest_end_ns):
                if last is not None and _gives_way(condition, state):
                    last = _ended(last, state, why, sums.newest_end_ns)
                else:
                    last = self._changed(condition, last, state, why, sums)
                told.append(last)
        if complete:
            told += self._without_budget(seen, sums.newest_end_ns)
        return told

    def noted(self) -> list[Breach]:
        """The changes that follow from what people said since."""
        return [
            self._said(last, said)
            for last in self._last.values()
            if last.state in ALIVE and _said_of(last) != (said := self._notes_on(last))
        ]

    def _know_life(self, breach: Breach) -> None:
        if breach.state in ALIVE and breach.previous_state not in ALIVE:
            self._begun[breach.id] = breach.change

    def _notes_on(self, breach: Breach) -> Said:
        return self.notes.on(breach, self._begun.get(breach.id, 0))

    def _without_budget(self, seen: set[str], now_ns: int) -> Iterator[Breach]:
        for last in self._last.values():
            if last.state in ALIVE and last.id not in seen:
                why = "the period ended" if last.period_end_ns <= now_ns else "the budget was changed"
                yield _ended(last, RESOLVED, why, now_ns)

    def _said(self, last: Breach, said: Said) -> Breach:
        why = "said by a person" if any(said) else "what was said was taken back"
        return replace(last, change=last.change + 1, previous_state=last.state, why=why, **said._asdict())

    def _changed(self, condition: Condition, last: Breach | None, state: str, why: str, sums: Sums) -> Breach:
        meter, budget = condition.meter, condition.meter.budget
        keeps_since = last is not None and last.state in ALIVE
        since_ns = last.since_ns if last is not None and keeps_since else condition.through_ns
        before_ns = None
        if not keeps_since and condition.brought is not None and condition.holds:
            before_ns = sums.crossed_ns(condition.brought, condition.line)
        if before_ns is not None:
            since_ns, why = before_ns, f"{why}; {BEFORE_VERSION}"
        window_ns = last.window_start_ns if last is not None and keeps_since else since_ns - 1
        moves = budget.rolling_ns is not None or condition.rule == IDLE  # what it counts begins anywhere
        starts = sums.starts(meter.key)[-PERIODS_UNDER_WAY:] if moves else [condition.period.start_ns]
        runs_out = not condition.over and condition.rule != IDLE
        used_up = (forecast_of(meter, condition.period, condition.spent, sums) if runs_out else None) or (
            None,
            None,
        )
        breach = Breach(
            id=condition.id,
            change=last.change + 1 if last is not None else 1,
            state=state,
            budget_id=budget.id,
            budget_version=condition.version,
            period_start_ns=condition.period.start_ns,
            period_end_ns=condition.period.end_ns,
            since_ns=since_ns,
            window_start_ns=window_ns,
            previous_state=last.state if last is not None else "",
            rule=condition.rule,
            threshold_ppm=condition.threshold_ppm,
            spent_nano=min(condition.spent, LARGEST_LONG) if meter.money else None,
            amount_nano=budget.amount_nano,
            currency=budget.currency,
            spent_gpu_ns=None
            if meter.money and budget.rolling_ns is not None
            else min(condition.spent_gpu_ns, LARGEST_LONG),
            amount_gpu_ns=budget.amount_gpu_ns,
            forecast_low_ns=used_up[0],
            forecast_high_ns=used_up[1],
            drivers=sums.drivers(meter.key, starts),
            budget_name=budget.name,
            scope=dict(budget.scope),
            speed=condition.speed,
            factor_nano=condition.factor_nano,
            at_ns=sums.newest_end_ns,
            why=f"{why}; {condition.told}" if condition.told else why,
        )
        self._know_life(breach)
        breach = replace(breach, message=sentence(breach), link=link_of(self._link, breach))
        return replace(breach, **self._notes_on(breach)._asdict())


def _gives_way(condition: Condition, state: str) -> bool:
    """Whether a life ends where the condition tells of the next one already."""
    return state not in ALIVE and condition.holds and not condition.over


def _ended(last: Breach, state: str, why: str, now_ns: int) -> Breach:
    """The end of a breach, with what was told of it last."""
    ended = replace(
        last, change=last.change + 1, state=state, previous_state=last.state, at_ns=now_ns, why=why
    )
    return replace(ended, message=sentence(ended))


def _said_of(breach: Breach) -> Said:
    return Said(
        breach.acknowledged_by,
        breach.acknowledged_until_ns,
        breach.silenced_by,
        breach.silenced_until_ns,
    )


def _steps(condition: Condition, last: Breach | None, now_ns: int) -> list[Step]:
    """The states that a breach goes through now."""
    state = last.state if last is not None else RETRACTED
    if condition.over:
        return _steps_over(condition, last, state)
    begins = (FIRING if condition.ripe and not condition.pending_ns else PENDING), CROSSED
    if condition.holds:
        if state in (RETRACTED, RESOLVED) or last is None:
            return [begins]
        if state == PENDING and condition.ripe and now_ns - last.since_ns >= condition.pending_ns:
            return [(FIRING, "it stayed beyond the line")]
        if state == FIRING and not condition.ripe:
            return [_ending(condition, last), begins]
        return []
    if state == PENDING:
        return [(RETRACTED, "it did not stay beyond the line")]
    if state == FIRING and last is not None:
        return [_ending(condition, last)]
    return []


def _ending(condition: Condition, last: Breach) -> Step:
    """How it ends where its period goes on."""
    budget = condition.meter.budget
    was = last.amount_nano, last.amount_gpu_ns, last.currency, last.scope
    if was != (budget.amount_nano, budget.amount_gpu_ns, budget.currency, budget.scope):
        return RESOLVED, "the budget was changed"
    first_ns, needed_ns = last.period_start_ns, condition.needed_ns
    is_restated = any(first_ns < end_ns <= first_ns + needed_ns for end_ns in condition.breaks_ns)
    if condition.falls_by_itself and not is_restated:
        return RESOLVED, "it fell below the line"
    return RETRACTED, "what was charged was restated"


def _steps_over(condition: Condition, last: Breach | None, state: str) -> list[Step]:
    ended = (RESOLVED, "the period ended")
    if condition.holds:
        if state in ALIVE:
            return [ended]
        return [(FIRING, "late charges crossed the line"), ended] if state == RETRACTED else []
    over_when_told = last is not None and last.at_ns >= condition.period.end_ns
    if state in ALIVE or (state == RESOLVED and over_when_told):
        return [(RETRACTED, "what was charged was restated")]
    return []
