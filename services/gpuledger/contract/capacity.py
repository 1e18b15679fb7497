"""How a node is paid for, in the ledger's words: whatever labels, files and people call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, str]] = {
    "on-demand": "on_demand",  # Karpenter
    "ondemand": "on_demand",
    "regular": "on_demand",  # AKS
    "preemptible": "spot",  # Google, before it was called spot
    "capacity_block": "reserved",  # EKS
    "capacity-block": "reserved",
}


def capacity_word(text: str) -> str:
    """``spot`` of Spot, ``on_demand`` of ON_DEMAND or on-demand; a word that nobody knows in lower case."""
    word = text.strip().lower()
    return _WORDS.get(word, word)
