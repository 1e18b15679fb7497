"""The records of the wire contract as Python values, and their way to bytes and back.

``encode`` and ``decode`` are bodies without the Confluent frame; ``gpuledger.contract.wire`` adds and takes
that. Columns are numpy arrays; see schemas/ for the meaning and unit of each field.
"""

from gpuledger.contract.records.budgets import BreachNote, BudgetState, BudgetSubtotal
from gpuledger.contract.records.charges import ChargeSet
from gpuledger.contract.records.configuration import (
    Budget,
    BudgetRule,
    BudgetsVersion,
    CurrencyRate,
    PeriodsVersion,
    PolicyRule,
    PriceBookVersion,
    PriceEntry,
    TeamMapVersion,
    TeamRule,
)
from gpuledger.contract.records.convert import (
    Record,
    decode,
    decode_as,
    decode_many,
    decode_series,
    encode,
    encode_many,
    record_name,
)
from gpuledger.contract.records.node import Device, Header, Holder, Keeper, NodeLayout, Pod, Process
from gpuledger.contract.records.outcomes import Breach, BreachDriver, DeadLetter, HeaderItem
from gpuledger.contract.records.progress import Generation, NodeLifetime, NodeProgress
from gpuledger.contract.records.telemetry import EventBatch, Gap, Holdings, SampleBatch

__all__ = [
    "Breach",
    "BreachDriver",
    "BreachNote",
    "Budget",
    "BudgetRule",
    "BudgetState",
    "BudgetSubtotal",
    "BudgetsVersion",
    "ChargeSet",
    "CurrencyRate",
    "DeadLetter",
    "Device",
    "EventBatch",
    "Gap",
    "Generation",
    "Header",
    "HeaderItem",
    "Holder",
    "Holdings",
    "Keeper",
    "NodeLayout",
    "NodeLifetime",
    "NodeProgress",
    "PeriodsVersion",
    "Pod",
    "PolicyRule",
    "PriceBookVersion",
    "PriceEntry",
    "Process",
    "Record",
    "SampleBatch",
    "TeamMapVersion",
    "TeamRule",
    "decode",
    "decode_as",
    "decode_many",
    "decode_series",
    "encode",
    "encode_many",
    "record_name",
]
