"""How spending is laid out: nothing is cut, and what has no name says what it is."""

from __future__ import annotations

import io

from rich.console import Console

from gpuledger.spend.query import Question, Spending
from gpuledger.spend.show import COLUMNS, shown
from gpuledger.spend.span import Span
from gpuledger.spend.words import gpu_hours

SPAN = Span(7 * 86_400, 7 * 86_400 + 1800)
HOUR_NS = 3_600_000_000_000
NANO = 1_000_000_000


def one(*key: str) -> Spending:
    nano = dict.fromkeys(("used", "held_idle", "total", "effectively_used"), 123456 * NANO)
    nano |= {"unallocated": 1_234 * NANO, "unobserved": 0}
    ns = dict.fromkeys(nano, 20_000 * HOUR_NS)
    return Spending(key, "USD", dict(nano), ns, known_ns=HOUR_NS, trend_nano=[NANO] * len(SPAN.buckets))


def table(by: str, width: int, *keys: tuple[str, ...]) -> str:
    out = io.StringIO()
    found = [one(*key) for key in keys]
    Console(file=out, width=width).print(shown(Question(by, SPAN), found, 30, width))
    return out.getvalue()


def test_at_every_width_a_column_is_whole_or_left_out_and_named() -> None:
    for width in range(60, 170):
        text = table("model", width, ("NVIDIA H100 80GB HBM3",))
        head = next(line for line in text.splitlines() if "used" in line)
        told = text.partition("Left out for want of width:")[2].partition("(")[0].replace("\n", " ")
        assert "…" not in text
        for name in COLUMNS:
            assert (name in head) != (name in told), (width, name)


def test_gpus_without_a_pod_are_not_called_none() -> None:
    text = table("pod", 200, ("prod", "", ""), ("prod", "ml", "train-0"))
    assert "prod (no pod)" in text
    assert "prod/ml/train-0" in text
    assert "(no team)" in table("team", 200, ("",))


def test_little_gpu_time_has_four_decimals() -> None:
    hours = [0.0, 0.0043, 0.5, 12.34, 20_000]
    assert [gpu_hours(round(h * HOUR_NS)) for h in hours] == ["0.0", "0.0043", "0.50", "12.3", "20,000.0"]
