"""Seeing spend: who spends what on GPUs, what of it was idle, how it moves, and what it was before.

``source`` is what reports of a span read: whole hours from the stored sums, the rest from windows.
"""

from gpuledger.spend.ledger import Stretch, source, stretches
from gpuledger.spend.query import DIMENSIONS, Question, Spending, ask
from gpuledger.spend.span import Span, span_of
from gpuledger.tables import fitted

__all__ = [
    "DIMENSIONS",
    "Question",
    "Span",
    "Spending",
    "Stretch",
    "ask",
    "fitted",
    "source",
    "span_of",
    "stretches",
]
