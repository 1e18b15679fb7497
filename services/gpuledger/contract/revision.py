"""Which of two computations of one window holds.

revision = (generation 16 bits, distinct inputs 20, digest of the input identities 20, core version 8),
compared as one number: fewer inputs lose, equal inputs give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from gpuledger.contract.identity import RecordId

GENERATION_BITS = 16
INPUTS_BITS = 20
DIGEST_BITS = 20
CORE_BITS = 8
MAX_GENERATION = (1 << GENERATION_BITS) - 1
MAX_INPUTS = (1 << INPUTS_BITS) - 1
MAX_DIGEST = (1 << DIGEST_BITS) - 1
MAX_CORE = (1 << CORE_BITS) - 1
CORE_VERSION = 6  # of the charging rules; raised with every change that may change a charge


class Revision(NamedTuple):
    """The rank of one computation of a window."""

    generation: int
    inputs: int
    digest: int
    core: int

    @property
    def packed(self) -> int:
        """One non-negative number below 2**64 that orders as the tuple does."""
        for value, limit, name in (
            (self.generation, MAX_GENERATION, "generation"),
            (self.inputs, MAX_INPUTS, "inputs"),
            (self.digest, MAX_DIGEST, "digest"),
            (self.core, MAX_CORE, "core"),
        ):
            if not 0 <= value <= limit:
                raise ValueError(f"revision {name} {value} is outside 0..{limit}")
        head = (self.generation << INPUTS_BITS | self.inputs) << DIGEST_BITS | self.digest
        return head << CORE_BITS | self.core

    @staticmethod
    def unpack(packed: int) -> Revision:
        """Inverse of ``packed``."""
        core = packed & MAX_CORE
        digest = packed >> CORE_BITS & MAX_DIGEST
        inputs = packed >> (CORE_BITS + DIGEST_BITS) & MAX_INPUTS
        return Revision(packed >> (CORE_BITS + DIGEST_BITS + INPUTS_BITS), inputs, digest, core)


def digest_of_inputs(inputs: Iterable[tuple[RecordId, int]]) -> int:
    """20-bit digest of a set of inputs, each an identity with its mend number (0: the original).

    The order of the inputs does not matter.
    """
    total = hashlib.blake2b(digest_size=8)
    for record, mend in sorted(inputs):
        total.update("\x1f".join(map(str, (*record, mend))).encode())
        total.update(b"\x1e")
    return int.from_bytes(total.digest(), "big") & MAX_DIGEST
