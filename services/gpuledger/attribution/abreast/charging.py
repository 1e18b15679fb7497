"""The devices of a pass that can be charged abreast, charged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuledger.attribution.abreast.claims import Known, claims_of
from gpuledger.attribution.abreast.costs import costs_of
from gpuledger.attribution.abreast.divided import divided
from gpuledger.attribution.abreast.explained import explained
from gpuledger.attribution.abreast.seen import Facts, resident_of, seen
from gpuledger.attribution.abreast.table import Bools, table_of
from gpuledger.attribution.abreast.written import Abreast, abreast_of
from gpuledger.attribution.gather import Prepared
from gpuledger.attribution.settle import Ledger


def charge_abreast(
    ready: Sequence[Prepared], ledgers: Sequence[Ledger], facts: Facts
) -> tuple[Abreast | None, Bools]:
    """(the rows of all devices that can be charged abreast, which devices of the pass these are)."""
    done = np.zeros(facts.columns.devices, bool)
    table = table_of(ready, facts.columns) if len(facts.mapped.piece) else None
    if table is None:
        return None, done
    resident = resident_of(table, ready)
    there = seen(table, facts, resident)
    found = explained(table, there, facts.shares)
    costs = costs_of(table, found.done.tolist(), ready, ledgers)
    known = Known(table, there, found, costs, found.done & (costs.time > 0))
    done[table.place[known.chosen]] = True
    parts = divided(table, there, found, costs, known.chosen)
    claims = claims_of(known, parts, facts.usage, resident, facts.silicon, ready)
    return abreast_of(table, claims, costs), done
