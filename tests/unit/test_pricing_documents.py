"""Documents in YAML: exact amounts, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.configuration import plan_version
from gpuledger.configuration.reading import read_files
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import PriceBookVersion, TeamMapVersion, decode, encode
from gpuledger.pricing import PriceBook, PricedDevice
from gpuledger.pricing.yaml_documents import InvalidDocument, read_documents, read_prices, read_teams

S = 1_000_000_000
NOW = 1_700_000_000 * S
ROOT = Path(__file__).parents[2]
PRICES = """\
kind: prices
currency: USD
prices:
  - id: a
    per: gpu
    price_per_hour: 12.290000001
    discount: 0.15
    match: {gpu_model: H100}
    source: somewhere
"""


def prices_with(*lines: str) -> str:
    return "kind: prices\nprices:\n" + "\n".join(lines) + "\n"


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidDocument) as caught:
        read_documents(text, "p.yaml")
    return caught.value.problems


def test_an_amount_never_passes_through_a_float():
    """12.290000001 less 15 % is 10.44650000085: half even to the nano, 10.446500001."""
    entry = read_prices(PRICES, "p.yaml").entries[0]
    assert entry.list_price_nano_per_hour == 12_290_000_001
    assert entry.unit_price_nano_per_hour == 10_446_500_001
    assert (entry.discount_ppb, entry.gpu_model, entry.currency) == (150_000_000, "H100", "USD")


def test_a_version_carries_its_document_and_survives_the_wire():
    version = read_prices(PRICES, "p.yaml")
    assert version.document == PRICES
    assert len(version.document_sha256) == 64
    assert decode(PriceBookVersion, encode(version)) == version


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("kind: prices\nprices:\n  - id: a\n    per: gpu\n    price_per_hour: 1e3\n", 5, "amount"),
        ("kind: prices\nprices:\n  - id: a\n    per: gpu\n    price_per_hour: -1\n", 5, "amount"),
        ("kind: prices\nprices:\n  - id: a\n    per: rack\n    price_per_hour: 1\n", 4, "'gpu' or 'node'"),
        (
            "kind: prices\nprices:\n  - id: a\n    per: gpu\n    price_per_hour: 1\n    prize: 1\n",
            6,
            "not permitted",
        ),
        ("kind: prices\nprices:\n  - per: gpu\n    price_per_hour: 1\n", 3, "required"),
        ("kind: pries\n", 1, "kind must be one of"),
        ("kind: teams\nrules:\n  - id: a\n    team: t\n    from_label: x\n", 3, "either team or from_label"),
        (
            "kind: teams\nrules:\n  - id: a\n    team: t\n    effective_from: 2025-07-01T00:00:30Z\n",
            5,
            "whole minute",
        ),
        (
            "kind: teams\nrules:\n  - id: a\n    team: t\n    effective_from: 2025-07-01T00:00:00\n",
            5,
            "time zone",
        ),
        ("kind: teams\nrules:\n  - {id: a, team: t}\n  - {id: a, team: u}\n", 4, "twice"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, line, what):
    (problem,) = problems(text)
    assert problem.startswith(f"p.yaml:{line}: ")
    assert what in problem


def test_every_mistake_of_a_file_is_named_at_once():
    text = prices_with("  - {id: a, per: gpu, price_per_hour: x}", "  - {id: b, per: gup, price_per_hour: 1}")
    assert [problem.split(":")[1] for problem in problems(text)] == ["3", "4"]


def test_what_is_not_yaml_says_where():
    with pytest.raises(ConfigError, match=r"p\.yaml:2: this is not YAML"):
        read_documents("kind: prices\nprices: [}\n", "p.yaml")
    with pytest.raises(ConfigError, match=r"p\.yaml:2: the key 'kind' is there twice"):
        read_documents("kind: prices\nkind: prices\n", "p.yaml")
    with pytest.raises(ConfigError, match="empty"):
        read_documents("", "p.yaml")


def test_an_alias_that_contains_itself_is_refused():
    with pytest.raises(ConfigError, match="contains itself"):
        read_documents("kind: prices\nprices: &a [*a]\n", "p.yaml")


def test_two_prices_for_one_device_at_one_instant_are_refused():
    overlap = prices_with(
        "  - {id: a, per: gpu, price_per_hour: 1, effective_to: 2025-07-02}",
        "  - {id: b, per: gpu, price_per_hour: 2, effective_from: 2025-07-01}",
    )
    (problem,) = problems(overlap)
    assert problem.startswith("p.yaml:4: b and a both apply to one device from 2025-07-01T00:00:00Z")


def test_two_matches_that_may_meet_on_one_device_need_a_priority():
    """A region's price and a model's price are both for the H100s of that region."""
    lines = [
        "  - {id: a, per: gpu, price_per_hour: 1, match: {region: r}}",
        "  - {id: b, per: gpu, price_per_hour: 2, match: {gpu_model: H100}%s}",
    ]
    assert "p.yaml:4" in problems(prices_with(lines[0], lines[1] % ""))[0]
    assert read_documents(prices_with(lines[0], lines[1] % ", priority: 1"), "p.yaml")


def test_a_gap_between_prices_is_refused_unless_a_wider_price_covers_it():
    lines = (
        "  - {id: a, per: gpu, price_per_hour: 1, match: {region: r}, effective_to: 2025-07-01}",
        "  - {id: b, per: gpu, price_per_hour: 1, match: {region: r}, effective_from: 2025-07-02}",
    )
    (problem,) = problems(prices_with(*lines))
    assert "p.yaml:4: no price from 2025-07-01T00:00:00Z to 2025-07-02T00:00:00Z" in problem
    assert read_documents(prices_with(*lines, "  - {id: c, per: gpu, price_per_hour: 1}"), "p.yaml")


def test_two_rates_of_one_pair_from_one_instant_contradict_each_other():
    """Which of them holds is nobody's to guess. The other direction is another pair."""
    rates = (
        "rates:\n"
        "  - {from: EUR, to: USD, rate: 1.1, effective_from: 2025-01-01}\n"
        "  - {from: USD, to: EUR, rate: 0.9, effective_from: 2025-01-01}\n"
    )
    assert read_documents(PRICES + rates, "p.yaml")
    again = "  - {from: EUR, to: USD, rate: 1.2, effective_from: 2025-01-01T00:00:00Z}\n"
    said = "p.yaml:13: there is a rate from EUR to USD from that instant on already: p.yaml:11"
    assert problems(PRICES + rates + again) == (said,)


def test_a_rate_of_a_currency_to_itself_is_refused():
    assert problems(PRICES + "rates: [{from: USD, to: USD, rate: 2}]\n") == (
        "p.yaml:10: a rate from USD to USD says nothing",
    )


def test_a_price_in_another_currency_needs_a_rate_from_its_first_instant():
    text = prices_with("  - {id: a, per: gpu, price_per_hour: 1, currency: EUR}")
    assert "no rate to USD" in problems(text)[0]
    assert read_documents(text + "rates: [{from: EUR, to: USD, rate: 1.0853}]\n", "p.yaml")


@pytest.mark.parametrize(
    "name",
    [
        "deploy/examples/prices.yaml",
        "deploy/examples/teams.yaml",
        "deploy/examples/budgets.yaml",
        "deploy/demo/prices.yaml",
    ],
)
def test_the_documents_that_come_with_the_project_are_valid(name):
    assert read_files([ROOT / name])


def test_every_price_of_the_sample_list_says_where_it_is_from():
    version = read_prices((ROOT / "deploy/examples/prices.yaml").read_text(), "prices.yaml")
    assert all(entry.source for entry in version.entries)
    book = PriceBook(version)
    known = book.entry(PricedDevice(instance_type="p5.48xlarge", gpu_model="NVIDIA H100 80GB HBM3"), NOW)
    model = book.entry(PricedDevice(gpu_model="Tesla T4"), NOW)
    assert known is not None
    assert model is not None
    assert (known.id, model.id) == ("aws-p5.48xlarge", "gpu-t4")


def test_the_sample_team_map_reads_as_it_says():
    version = read_teams((ROOT / "deploy/examples/teams.yaml").read_text(), "teams.yaml")
    assert isinstance(version, TeamMapVersion)
    assert version.rules[0].label_key == "team"


def test_the_files_of_one_call_hold_each_kind_once(tmp_path):
    (tmp_path / "a.yaml").write_text(PRICES)
    (tmp_path / "b.yaml").write_text(PRICES)
    with pytest.raises(ConfigError, match="two documents of one kind"):
        read_files([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    with pytest.raises(InvalidDocument, match="No such file"):
        read_files([tmp_path / "c.yaml"])


def test_the_first_version_holds_from_the_beginning_while_nothing_was_charged():
    document = read_prices(PRICES, "p.yaml")
    first = plan_version(document, [], NOW, None, charged=False)
    assert first is not None
    assert (first.version, first.active_from_ns) == (1, 0)
    charged = plan_version(document, [], NOW, None, charged=True)
    assert charged is not None
    assert charged.active_from_ns >= NOW + 60 * S
    assert charged.active_from_ns % (60 * S) == 0


def test_a_version_must_be_60_s_ahead():
    document = read_prices(PRICES, "p.yaml")
    known = [PriceBookVersion(4, 0)]
    with pytest.raises(Refused, match="60 s ahead"):
        plan_version(document, known, NOW, NOW + 60 * S - 1, charged=True)
    planned = plan_version(document, known, NOW, NOW + 60 * S, charged=True)
    assert planned is not None
    assert (planned.version, planned.active_from_ns) == (5, NOW + 60 * S)


def test_an_unchanged_document_is_no_new_version():
    document = read_prices(PRICES, "p.yaml")
    first = plan_version(document, [], NOW, None, charged=False)
    assert first is not None
    assert plan_version(document, [first], NOW, None, charged=True) is None


@pytest.mark.parametrize(("nano", "half"), [(3, 2), (5, 2), (7, 4)])
def test_a_discounted_price_is_rounded_half_even(nano, half):
    text = prices_with(f"  - {{id: a, per: gpu, price_per_hour: 0.00000000{nano}, discount: 0.5}}")
    assert read_prices(text, "p.yaml").entries[0].unit_price_nano_per_hour == half


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 5_000 + "]" * 5_000, "nest"),
        ("{a: " * 100 + "1" + "}" * 100, "nested more than 32 deep"),
        ('kind: "\\ud800"', "surrogate|Unicode"),
        ('"\\ud800": 1', "a key must be a text|Unicode"),
        ("kind: prices\nprices: [{id: a, per: gpu, price_per_hour: 1, effective_from: 9999-12-31}]", "2116"),
    ],
)
def test_document_that_no_program_can_hold_is_refused_in_one_line(text, message):
    with pytest.raises(ConfigError, match=message) as refused:
        read_documents(text, "prices.yaml")
    assert len(str(refused.value).splitlines()) == 1


def test_a_version_of_a_long_document_can_be_read_again():
    """A spot series of a year by the hour is half a megabyte of text; a string of a record has 256 KiB."""
    lines = [
        f"  - {{id: p{i}, per: gpu, price_per_hour: 1, match: {{instance_type: t{i}}}}}" for i in range(6000)
    ]
    version = read_prices(prices_with(*lines), "p.yaml")
    assert len(version.document) > 256 * 1024
    assert decode(PriceBookVersion, encode(version)) == version


def test_a_document_whose_entries_do_not_fit_into_a_record_is_refused():
    """Each interval of a series carries the source: 1,440 of them with 6,000 characters are 8.6 MB."""
    times = (f"2025-01-01T{minute // 60:02}:{minute % 60:02}:00Z" for minute in range(1440))
    text = "\n".join(
        [
            "kind: prices",
            "spot:",
            "  - id: s",
            "    per: gpu",
            "    source: " + "x" * 6000,
            "    known_until: 2026-01-01",
            "    prices:",
            *(f"      - {{from: {since}, price_per_hour: 1}}" for since in times),
        ]
    )
    (problem,) = problems(text)
    assert "it does not fit into a version" in problem
    assert "the limit is 8388608" in problem
