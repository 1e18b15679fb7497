"""The names of the topics, and which records each carries."""

from __future__ import annotations

NAMESPACE = "io.gpuledger"

TELEMETRY = "gpu.telemetry"
NODES = "gpu.nodes"
PROGRESS = "gpu.progress"
CHARGES = "gpu.charges"
PRICES = "gpu.prices"
TEAMS = "gpu.teams"
BUDGETS = "gpu.budgets"
PERIODS = "gpu.periods"
BREACHES = "gpu.breaches"
BUDGET_SUBTOTALS = "gpu.budget-subtotals"
BUDGET_STATE = "gpu.budget-state"
BREACH_NOTES = "gpu.breach-notes"
GENERATIONS = "gpu.generations"
DEAD_LETTERS = "gpu.dead-letters"

RECORDS_OF_TOPIC: dict[str, tuple[str, ...]] = {
    TELEMETRY: ("EventBatch", "SampleBatch", "Holdings"),
    NODES: ("NodeLifetime",),
    PROGRESS: ("NodeProgress",),
    CHARGES: ("ChargeSet",),
    PRICES: ("PriceBookVersion",),
    TEAMS: ("TeamMapVersion",),
    BUDGETS: ("BudgetsVersion",),
    PERIODS: ("PeriodsVersion",),
    BREACHES: ("Breach",),
    BUDGET_SUBTOTALS: ("BudgetSubtotal",),
    BUDGET_STATE: ("BudgetState",),
    BREACH_NOTES: ("BreachNote",),
    GENERATIONS: ("Generation",),
    DEAD_LETTERS: ("DeadLetter",),
}

SCHEMA_FILES: dict[str, str] = {
    "EventBatch": "event_batch",
    "SampleBatch": "sample_batch",
    "Holdings": "holdings",
    "NodeLifetime": "node_lifetime",
    "NodeProgress": "node_progress",
    "ChargeSet": "charge_set",
    "PriceBookVersion": "price_book_version",
    "TeamMapVersion": "team_map_version",
    "BudgetsVersion": "budgets_version",
    "PeriodsVersion": "periods_version",
    "Breach": "breach",
    "BudgetSubtotal": "budget_subtotal",
    "BudgetState": "budget_state",
    "BreachNote": "breach_note",
    "Generation": "generation",
    "DeadLetter": "dead_letter",
}
"""File under schemas/ of each record, without ``.avsc``."""


def topic_of(record: str) -> str:
    """The topic that carries the record of that (short) name."""
    return next(topic for topic, records in RECORDS_OF_TOPIC.items() if record in records)


def subject_of(topic: str, record: str) -> str:
    """Registry subject: topic and full record name (Confluent's TopicRecordNameStrategy)."""
    return f"{topic}-{NAMESPACE}.{record}"
