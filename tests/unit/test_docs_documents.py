"""What docs/prices.md, docs/teams.md and docs/budgets.md show is what the programs do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuledger.contract.records import PriceBookVersion, PriceEntry
from gpuledger.pricing import Consumer, PriceBook, PricedDevice, TeamMap
from gpuledger.pricing.explain import explain_price
from gpuledger.pricing.yaml_documents import read_documents, read_prices, read_teams
from gpuledger.pricing.yaml_values import instant_ns

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {name: (DOCS / name).read_text() for name in ("prices.md", "teams.md", "budgets.md")}
BLOCKS = [
    (name, block)
    for name, text in TEXTS.items()
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
]
TEN = instant_ns("2025-07-01T10:00:00Z")
HOUR = 3_600_000_000_000


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=lambda value: value.splitlines()[0][:20])
def test_every_document_that_is_shown_is_valid(name: str, block: str) -> None:
    assert read_documents(block, name)


def test_all_of_them_were_looked_at() -> None:
    assert len(BLOCKS) == 7


def test_the_example_of_precedence_is_what_is_decided() -> None:
    nine = TEN - HOUR
    entries = [
        PriceEntry("any", "gpu", 1, "USD"),
        PriceEntry("h100", "gpu", 2, "USD", gpu_model="H100"),
        PriceEntry("h100-r", "gpu", 3, "USD", gpu_model="H100", region="r"),
        PriceEntry("deal", "gpu", 4, "USD", cluster="c", priority=5, effective_to_ns=nine),
        PriceEntry("contract", "gpu", 5, "USD", cluster="c", priority=1),
    ]
    book = PriceBook(PriceBookVersion(1, 0, entries=entries))
    device = PricedDevice(cluster="c", region="r", gpu_model="H100")
    decision = explain_price(book, device, TEN)
    assert [one.id for one in decision.considered] == ["contract", "h100-r", "h100", "any", "deal"]
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \| [^|]* \| \d", TEXTS["prices.md"], re.MULTILINE)) == {
        entry.id for entry in entries
    }


def test_the_arithmetic_of_own_hardware_is_what_is_charged() -> None:
    """(350,400 - 87,600) / 26,280 h is 10, 10 kW at 0.20 is 2: 12 x 1.25 = 15, later 2 x 1.25 = 2.50."""
    (block,) = (block for _, block in BLOCKS if "owned:" in block)
    first, later = read_prices(block, "prices.md").entries
    assert (first.unit_price_nano_per_hour, later.unit_price_nano_per_hour) == (15 * 10**9, 25 * 10**8)
    assert later.id == "dgx-2025:written-off"


@pytest.mark.parametrize(
    ("namespace", "labels", "team"),
    [
        ("research-1", {"team": "vision"}, "vision"),
        ("research-1", {}, "research"),
        ("shop", {}, "unclaimed"),
    ],
)
def test_the_example_of_teams_is_what_is_decided(namespace: str, labels: dict[str, str], team: str) -> None:
    (block,) = (block for name, block in BLOCKS if name == "teams.md")
    teams = TeamMap(read_teams(block, "teams.md"))
    assert teams.team_of(Consumer(namespace=namespace, labels=labels), TEN).team == team
