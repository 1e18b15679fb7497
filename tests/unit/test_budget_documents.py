"""Budgets in YAML: what they mean, and every mistake with its line."""

from pathlib import Path

import pytest

from gpuledger.configuration.diff import diff
from gpuledger.contract.records import Budget, BudgetsVersion, decode, encode
from gpuledger.contract.windows import HOUR_NS, MINUTE_NS
from gpuledger.pricing.yaml_documents import InvalidDocument, read_documents
from gpuledger.pricing.yaml_values import instant_ns

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/budgets.yaml"
HEAD = "kind: budgets\nbudgets:\n  - id: b\n    period: day\n"


def version(text: str) -> BudgetsVersion:
    (found,) = read_documents(text, "budgets.yaml")
    assert isinstance(found, BudgetsVersion)
    return found


def only(more: str, head: str = HEAD) -> Budget:
    (budget,) = version(head + more).budgets
    return budget


def mistakes(more: str, head: str = HEAD) -> str:
    with pytest.raises(InvalidDocument) as caught:
        read_documents(head + more, "budgets.yaml")
    return "\n".join(caught.value.problems)


def test_the_example_is_read_and_survives_the_wire() -> None:
    found = version(EXAMPLE.read_text())
    again = decode(BudgetsVersion, encode(found))
    month, day, rolling, fixed = again.budgets
    assert month.amount_nano == 25_000 * 10**9
    assert month.thresholds_ppm.tolist() == [500_000, 800_000, 1_000_000]
    assert day.amount_gpu_ns == 200 * HOUR_NS
    assert day.counts == ["used", "held_idle", "unallocated", "unobserved"]
    assert rolling.rolling_ns == 24 * HOUR_NS
    assert fixed.fixed_from_ns == instant_ns("2027-02-28T18:30:00Z")
    assert fixed.rules[0].parameters == {
        "pending_ns": str(10 * MINUTE_NS),
        "fast": f"{4 * 10**9} {HOUR_NS} {10 * MINUTE_NS}",
    }


def test_a_budget_without_thresholds_has_the_one_of_100_percent() -> None:
    assert only("    gpu_hours: 5\n").thresholds_ppm.tolist() == [1_000_000]


def test_the_line_of_100_percent_is_always_one_of_them() -> None:
    assert only("    gpu_hours: 5\n    thresholds: [120%, 50%]\n").thresholds_ppm.tolist() == [
        500_000,
        1_000_000,
        1_200_000,
    ]


def test_a_burn_rate_rule_has_the_usual_two_speeds() -> None:
    (rule,) = only("    gpu_hours: 5\n    rules: [{kind: burn_rate}]\n").rules
    assert rule.parameters["fast"] == f"{14_400_000_000} {HOUR_NS} {5 * MINUTE_NS}"
    assert rule.parameters["slow"] == f"{6 * 10**9} {6 * HOUR_NS} {30 * MINUTE_NS}"


def test_a_rule_for_idle_money_has_its_time_and_its_rate() -> None:
    (rule,) = only("    gpu_hours: 5\n    rules: [{kind: idle, longer_than: 90m, at_least: 2.5}]\n").rules
    assert rule.parameters == {"longer_than_ns": str(90 * MINUTE_NS), "an_hour_nano": str(2_500_000_000)}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "give either amount (with currency) or gpu_hours"),
        ("    amount: 5\n", "amount and currency belong together"),
        ("    amount: 0\n    currency: USD\n", "an amount above 0"),
        ("    gpu_hours: 5\n    time_zone: Mars/Olympus\n", ":6: budgets.0.time_zone"),
        ("    gpu_hours: 5\n    thresholds: [80]\n", "percentage of the amount such as 80%"),
        ("    gpu_hours: 5\n    thresholds: [80%, 80.0%]\n", "a threshold is there twice"),
        ("    gpu_hours: 5\n    thresholds: [0%]\n", "above 0%"),
        ("    gpu_hours: 5\n    rolling: 24h\n", "period rolling needs its length"),
        ("    gpu_hours: 5\n    starts: 2027-01-01\n", "period fixed needs starts and ends"),
        ("    gpu_hours: 5\n    scope: {queue: x}\n", "budgets.0.scope.queue"),
        ("    gpu_hours: 5\n    counts: [wasted]\n", ":6: budgets.0.counts"),
        ("    gpu_hours: 5\n    rules: [{kind: weather}]\n", "budgets.0.rules.0"),
        (
            "    gpu_hours: 5\n    rules: [{kind: burn_rate, fast: {factor: 2, long: 1h, short: 2h}}]\n",
            "shorter",
        ),
        ("    gpu_hours: 5\n    rules: [{kind: burn_rate, fast: null, slow: null}]\n", "leave fast or slow"),
        ("    gpu_hours: 5\n    rules: [{kind: idle}]\n", "budgets.0.rules.0.idle.at_least"),
        ("    gpu_hours: 5\n    rules: [{kind: idle, at_least: 0}]\n", "at_least must be above 0"),
        ("    gpu_hours: 5\n    rules: [{kind: idle, at_least: 1, longer_than: 2d}]\n", "at most 24h"),
        ("    gpu_hours: 5\n  - id: b\n    period: day\n    gpu_hours: 5\n", ":6: the id b is there twice"),
    ],
)
def test_a_mistake_is_told_with_its_place(more: str, told: str) -> None:
    found = mistakes(more)
    assert "budgets.yaml:" in found
    assert told in found


def test_a_document_without_a_change_differs_in_nothing() -> None:
    text = EXAMPLE.read_text()
    assert diff(version(text), version(text)) == []


def test_a_changed_amount_and_threshold_are_told_in_words() -> None:
    old = version(HEAD + "    gpu_hours: 5\n")
    new = version(HEAD + "    gpu_hours: 7\n    thresholds: [50%, 100%]\n")
    (line,) = diff(old, new)
    assert (line.sign, line.id) == ("~", "b")
    assert "gpu_hours 5 -> 7" in line.what
    assert "thresholds 100% -> 50% 100%" in line.what


def test_a_new_budget_is_told_with_what_it_says() -> None:
    (line,) = diff(None, version(HEAD + "    amount: 12.50\n    currency: EUR\n    scope: {team: vision}\n"))
    assert line.sign == "+"
    assert "scope team=vision" in line.what
    assert "amount 12.5" in line.what
