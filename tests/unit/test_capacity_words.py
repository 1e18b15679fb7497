"""However a label, a file or a person writes how a node is paid for, prices know it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.agent.settings import read_layout
from gpuledger.configuration.prices_cli import app
from gpuledger.inventory.file import read_lives
from gpuledger.kube.labels import capacity_type
from gpuledger.pricing.yaml_documents import read_prices
from tests.support.bills import METRICS, bill, written

WORDS = [
    ("on-demand", "on_demand"),
    ("ON_DEMAND", "on_demand"),
    ("Regular", "on_demand"),
    ("Spot", "spot"),
    ("preemptible", "spot"),
    ("CAPACITY_BLOCK", "reserved"),
    ("owned", "owned"),
]
EVERY = pytest.mark.parametrize(("word", "ours"), WORDS)
WINDOW_NS = 10_000_000_000


def prices(directory: Path, word: str = "") -> str:
    """One price of each word of the ledger; of ``word`` alone where one is given."""
    words = [word] if word else ["on_demand", "spot", "reserved", "owned"]
    lines = [
        f"  - {{id: p{number}-{one}, per: gpu, price_per_hour: 2, match: {{capacity_type: {one}}}}}\n"
        for number, one in enumerate(words)
    ]
    return written(directory, "prices.yaml", "kind: prices\nprices:\n", *lines)


@EVERY
def test_in_a_bill_from_files(word: str, ours: str, tmp_path: Path) -> None:
    answer = bill(*METRICS, "--for", "1h", "--prices", prices(tmp_path), "--capacity-type", word)
    assert {price for one in answer["lines"] for price in one["price_ids"]} == {
        f"p{['on_demand', 'spot', 'reserved', 'owned'].index(ours)}-{ours}"
    }
    assert answer["unpriced_ns"] == 0


@EVERY
def test_in_the_question_which_price_applies(word: str, ours: str, tmp_path: Path) -> None:
    given = ["explain", "--file", prices(tmp_path), "--capacity-type", word, "--json"]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert ours in json.dumps(json.loads(done.stdout)["price"])


@EVERY
def test_in_a_price_list(word: str, ours: str, tmp_path: Path) -> None:
    (entry,) = read_prices(Path(prices(tmp_path, word)).read_text(), "p.yaml").entries
    assert entry.capacity_type == ours


@EVERY
def test_in_what_a_node_says_of_itself(word: str, ours: str, tmp_path: Path) -> None:
    assert read_layout(None, {"capacity_type": word}).capacity_type == ours
    assert capacity_type({"karpenter.sh/capacity-type": word}) == ours
    node = f"nodes: [{{name: n, launched: 2025-11-05T09:00:00Z, capacity_type: {word}}}]\n"
    (life,) = read_lives(Path(written(tmp_path, "nodes.yaml", node)), "c", WINDOW_NS).values()
    assert life.layout.capacity_type == ours
