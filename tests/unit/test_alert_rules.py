"""Prometheus's rules and Alertmanager's example: taken by their own tools, each alert explained."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = (PROMETHEUS / "recording.yml", PROMETHEUS / "alerts.yml")
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
DOCUMENT = (ROOT / "docs" / "alerts.md").read_text()


def said(*command: str | Path) -> str:
    """What the tool said; it has to succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[dict[str, Any]]:
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> set[str]:
    return {rule["alert"] for rule in rules() if "alert" in rule}


def test_promtool_takes_the_rules_and_the_configuration() -> None:
    said("promtool", "check", "rules", *RULES)
    said("promtool", "check", "config", PROMETHEUS / "prometheus.yml")


def test_the_rules_do_what_their_tests_say() -> None:
    said("promtool", "test", "rules", *TESTS)


def test_every_alert_is_seen_firing_in_a_test() -> None:
    tried = [
        case
        for path in TESTS
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test.get("alert_rule_test", ())
    ]
    assert {case["alertname"] for case in tried if case["exp_alerts"]} == alerts()


def test_every_sum_of_money_and_of_gpus_has_its_value_in_a_test() -> None:
    tried = {
        case["expr"]
        for path in TESTS
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test.get("promql_expr_test", ())
    }
    (money,) = [
        group["rules"]
        for group in yaml.safe_load((PROMETHEUS / "recording.yml").read_text())["groups"]
        if group["name"] == "gpuledger-money"
    ]
    assert tried == {rule["record"] for rule in money}


def test_every_alert_says_what_to_do_and_how_bad_it_is() -> None:
    explained = dict(re.findall(r"^### (Gpu\w+)\n(.+?)(?=^#|\Z)", DOCUMENT, re.DOTALL | re.MULTILINE))
    assert set(explained) == alerts()
    assert all("\nDo: " in text for text in explained.values())
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"


def test_every_metric_that_a_rule_asks_for_is_one_that_there_is() -> None:
    asked = {name for rule in rules() for name in re.findall(r"(?<![\w:])gpuledger_\w+", rule["expr"])}
    source = "\n".join(path.read_text() for path in (ROOT / "services").rglob("*.py"))
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked_back = set(re.findall(r"gpuledger:\w+:\w+", " ".join(rule["expr"] for rule in rules())))
    assert asked_back <= recorded
    for name in asked:
        short = re.sub(r"^gpuledger_((agent|sink|processor)_)?|_total$", "", name)
        assert f'"{short}"' in source or f'"{name.removesuffix("_total")}"' in source, name


def test_the_document_names_every_metric_of_the_exporter_and_no_other() -> None:
    exporter = ROOT / "services" / "gpuledger" / "exporter"
    source = "".join((exporter / name).read_text() for name in ("families.py", "budgets.py"))
    names = set(re.findall(r"_(?:family|parts)\(\s*\"(\w+)\"", source))
    table = DOCUMENT[DOCUMENT.index("| metric |") : DOCUMENT.index("`part` is")]
    assert set(re.findall(r"`gpuledger_(\w+)`", table)) == names


def test_amtool_takes_the_example_and_breaches_go_to_finance() -> None:
    example = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
    said("amtool", "check-config", example)
    test = ("amtool", "config", "routes", "test", f"--config.file={example}")
    assert said(*test, "source=gpuledger", "alertname=GpuBudgetThreshold").strip() == "finance"
    assert said(*test, "alertname=GpuMoneyHeldIdle").strip() == "teams"
    assert said(*test, "alertname=GpuLedgerStale").strip() == "platform"
