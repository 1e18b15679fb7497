"""The whole reason of a window's charges as plain values: what JSON prints and the words are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpuledger.contract.money import format_nano
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.contract.rows import POOL, Flag
from gpuledger.explain.arithmetic import piece_of
from gpuledger.explain.computed import Computed
from gpuledger.explain.documents import Documents
from gpuledger.explain.inputs import inputs_of
from gpuledger.explain.revisions import Told
from gpuledger.explain.stored import Asked, Head, Row, as_rows, differences
from gpuledger.pricing.explain import explain_team
from gpuledger.pricing.yaml_documents import place_of

_SILICON = ("sm_active", "sm_occupancy", "tensor_active", "dram_active", "framebuffer_used_bytes")
_MONEY = ("used", "held_idle", "unallocated", "unobserved", "effectively_used", "borrowed")


@dataclass(frozen=True, slots=True)
class Reason:
    """``agrees``: whether every column of every row of the window is what was computed again."""

    values: dict[str, Any]
    agrees: bool


def reason_of(
    head: Head,
    stored: Sequence[Row],
    computed: Computed,
    asked: Asked,
    documents: Documents,
    revisions: Sequence[Told] | None,
) -> Reason:
    """The reason of the rows of whom is asked for. ``revisions`` None: they were not asked for."""
    wrong = differences(stored, as_rows(computed.charges))
    wrong += _revision_differs(head.revision, computed)
    chosen = [row for row in stored if _is_asked(row, asked)]
    devices = {row["device"] for row in chosen}
    book = computed.configuration.prices.at(head.key.start_ns, computed.charges.price_version)
    places = documents.price_places(book.version)
    pieces: dict[str, list[dict[str, Any]]] = {}
    for step in computed.steps.pieces:
        if step.device in devices:
            found = piece_of(step, book, lambda entry: place_of(entry, places))
            pieces.setdefault(step.device, []).append(found)
    values = {
        "cluster": head.key.node.cluster,
        "node": head.key.node.node,
        "window_start_ns": head.key.start_ns,
        "window_length_ns": head.length_ns,
        "state": head.state,
        "revision": head.revision._asdict(),
        "price_version": head.price_version,
        "team_version": head.team_version,
        "inputs": inputs_of(head, computed),
        "rows": [values_of(row) for row in chosen],
        "devices": pieces,
        "teams": _teams(head, computed, chosen, documents),
        "revisions": None if revisions is None else [_told(told) for told in revisions],
        "agrees": not wrong,
        "differences": wrong,
    }
    return Reason(values, not wrong)


def _is_asked(row: Row, asked: Asked) -> bool:
    given = ((asked.namespace, row["namespace"]), (asked.pod, row["pod"]), (asked.uid, row["consumer"]),
             (asked.device, row["device"]))  # fmt: skip
    return all(wanted in ("", value) for wanted, value in given)


def _revision_differs(stored: Revision, computed: Computed) -> list[str]:
    found = computed.charges
    now = Revision(found.generation, found.inputs, found.digest, found.core_version)
    if stored.core != CORE_VERSION:
        return [f"it was computed with version {stored.core} of the charging rules; this is {CORE_VERSION}"]
    return [] if now == stored else [f"the revision is {tuple(stored)}, computed {tuple(now)}"]


def values_of(row: Row) -> dict[str, Any]:
    """A row of the ledger. What the silicon counts is of the whole device: under its own name a consumer has
    it only where it was alone there."""
    found = {name: value for name, value in row.items() if name not in _MONEY}
    for name in _MONEY:
        found[f"{name}_nano"] = _nano(row[name])
    alone = row["consumer_kind"] != POOL and not row["flags"] & Flag.SILICON_SHARED
    for name in _SILICON:
        found[f"device_{name}"] = row[name]
        found[name] = row[name] if alone else None
    found["flags"] = [flag.name.lower() for flag in Flag if row["flags"] & flag and flag.name]
    del found["window_start"]  # in ns beside it
    return found


def _nano(amount: Decimal | None) -> int | None:
    return None if amount is None else int(amount.scaleb(9))


def _teams(head: Head, computed: Computed, rows: Sequence[Row], documents: Documents) -> list[dict[str, Any]]:
    """Which rule decided whose each consumer is."""
    teams = computed.configuration.teams.at(head.key.start_ns, computed.charges.team_version)
    places = documents.team_places(teams.version)
    wanted = {(row["consumer_kind"], row["consumer"]) for row in rows}
    found = []
    for key, step in sorted(computed.steps.teams.items()):
        if tuple(key) not in wanted:
            continue
        decision = explain_team(teams, step.consumer, step.at_ns)
        found.append(
            {
                "consumer_kind": key.kind,
                "consumer": key.consumer,
                "team": decision.team.team,
                "cost_centre": decision.team.cost_centre,
                "rule": decision.rule or None,
                "where": places.get(decision.rule, ""),
                "otherwise": decision.otherwise,
            }
        )
    return found


def _told(told: Told) -> Mapping[str, Any]:
    return {
        "place": told.place,
        "append_ns": told.append_ns,
        "revision": told.revision._asdict(),
        "state": told.state,
        "inputs": told.inputs,
        "price_version": told.price_version,
        "team_version": told.team_version,
        "total": format_nano(told.total_nano),
        "why": told.why,
    }
