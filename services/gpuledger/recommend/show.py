"""Recommendations for people, and as JSON for scripts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import HOUR_S, Evidence
from gpuledger.recommend.saving import Saving
from gpuledger.recommend.settings import Limits
from gpuledger.spend.words import duration, money, time_of

_INDENT = " " * 12


def shown(found: Sequence[Recommendation], with_manifests: bool, width: int) -> Iterator[Text]:
    """One paragraph each, at most ``width`` characters wide, then what they save together."""
    for number, one in enumerate(found, 1):
        yield _paragraph(number, one, with_manifests, width)
    for currency in sorted({one.currency for one in found if one.saving.nano is not None}):
        total = sum(one.saving.nano or 0 for one in found if one.currency == currency)
        yield Text(f"Together about {money(total)} {currency} a month, if all is done.", style="bold")


def nothing(evidence: Evidence, limits: Limits) -> Text:
    """What to say where no rule speaks: that all is well only where the ledger is long enough to say so."""
    if not (evidence.workloads or evidence.nodes):
        return Text("The ledger has nothing of this time.", style="yellow")
    length_s = evidence.span.length_s
    if length_s < limits.idle_hours * HOUR_S:
        there, asked = duration(length_s), duration(limits.idle_hours * HOUR_S)
        text = f"Nothing to recommend yet: there are {there} of evidence, the limits ask for {asked}."
        return Text(text, style="yellow")
    return Text("Nothing to recommend: what is held is used, as far as the limits ask.", style="green")


def without_advice(models: Sequence[str]) -> Text:
    """What to say of GPU models of which it is not known what a part of them would hold."""
    told = f"No slice and no sharing is recommended on {', '.join(models)}: its profiles are not known here."
    return Text(told, style="yellow")


def _paragraph(number: int, one: Recommendation, with_manifests: bool, width: int) -> Text:
    text = Text(f"{number}. ", style="bold")
    text.append(f"{one.rule.replace('_', ' ')}: {one.subject}", style="bold")
    text.append(f"  team {one.team}" if one.team else "", style="not bold")
    text.append(f"\n   saves    {saving_of(one.saving, one.currency)}", style="green not bold")
    between = f"{time_of(one.evidence.start_s)} to {time_of(one.evidence.until_s)} UTC"
    for head, told in (("seen", f"{one.finding} ({between})"), ("change", one.change), ("risk", one.risk)):
        line = textwrap.fill(
            told, width, initial_indent=f"   {head:<8} ", subsequent_indent=_INDENT,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        text.append(f"\n{line}", style="not bold")
    if one.instead_of:
        names = ", ".join(name.replace("_", " ") for name in one.instead_of)
        text.append(f"\n   instead  {names}: would save less of the same", style="not bold")
    for name, manifest in one.manifests.items():
        text.append(f"\n   manifest {name}", style="not bold")
        if with_manifests:
            text.append("\n" + manifest.rstrip(), style="not bold cyan")
    return text.append("\n")


def saving_of(saving: Saving, currency: str) -> str:
    """``1,234.00 USD a month (1,100.00 to 1,300.00); 100 GPU-hours a month``."""
    hours = f"{saving.gpu_hours:,.0f} GPU-hours" if saving.gpu_hours >= 0.5 else ""
    if saving.nano is None:
        return f"an amount that is not known for want of a price{f'; {hours} a month' if hours else ''}"
    between = f"{money(saving.low_nano)} to {money(saving.high_nano)}"
    return f"{money(saving.nano)} {currency} a month ({between}){f'; {hours} a month' if hours else ''}"


def as_json(one: Recommendation) -> dict[str, Any]:
    """Money a month in nano-units of the currency (null: no price), instants in s since the Unix epoch."""
    return {
        "rule": one.rule,
        "subject": one.subject,
        "team": one.team or None,
        "evidence_start_s": one.evidence.start_s,
        "evidence_until_s": one.evidence.until_s,
        "finding": one.finding,
        "change": one.change,
        "risk": one.risk,
        "saving_month_nano": one.saving.nano,
        "saving_month_low_nano": one.saving.low_nano,
        "saving_month_high_nano": one.saving.high_nano,
        "saving_month_gpu_hours": round(one.saving.gpu_hours, 3),
        "currency": one.currency or None,
        "instead_of": list(one.instead_of),
        "manifests": dict(one.manifests),
        "kept_by": [{"pod": k.pod, "workload": k.workload or None, "why": list(k.why)} for k in one.kept_by],
    }
