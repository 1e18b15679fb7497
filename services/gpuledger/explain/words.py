"""A reason in words, for people: one thought a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from gpuledger.contract.money import format_nano
from gpuledger.contract.windows import NS_PER_S

Values = Mapping[str, Any]
FORMULAS = {
    "used": "C x a",
    "held_idle": "C x (1 - A) x its idle entitlement, of all that is idle",
    "unallocated": "C x (1 - A) x what nobody holds, of all that is idle",
    "unobserved": "what nobody can explain",
}


def words_of(reason: Values) -> Iterator[str]:
    """The lines of a reason."""
    rank = reason["revision"]
    yield (
        f"{reason['cluster']}/{reason['node']}, window {_time(reason['window_start_ns'])} of"
        f" {_seconds(reason['window_length_ns'])}: {reason['state']}, generation {rank['generation']},"
        f" {rank['inputs']} inputs, rules {rank['core']}, prices {reason['price_version']},"
        f" teams {reason['team_version']}"
    )
    yield ""
    yield "Inputs"
    yield from map(_input, reason["inputs"])
    if not reason["inputs"]:
        yield "  none: no record of this window reached Kafka"
    for device, pieces in reason["devices"].items():
        for piece in pieces:
            yield ""
            yield from _piece(device, piece)
    yield ""
    yield "Rows"
    for row in reason["rows"]:
        yield from _row(row)
    yield from _teams(reason["teams"])
    yield from _revisions(reason["revisions"])
    yield ""
    if reason["agrees"]:
        yield "Computed again from these inputs: every column of every row of the window agrees."
    else:
        yield "Computed again from these inputs, the ledger does NOT agree:"
        yield from (f"  {difference}" for difference in reason["differences"])


def _input(record: Values) -> str:
    figures = ", ".join(f"{record[name]} {name}" for name in _FIGURES if name in record)
    remarks = [name for name in ("last", "amendment") if record[name]]
    remarks += [f"mend {record['mend']}"] if record["mend"] else []
    remarks += [f"refused: {record['refused']}"] if record["refused"] else []
    said = f" ({'; '.join(remarks)})" if remarks else ""
    return (
        f"  {record['place']}: {record.get('kind', 'not readable')}, part {record['part']}, sequence"
        f" {record['sequence']}, {record['bytes']} bytes{', ' if figures else ''}{figures}{said}"
    )


_FIGURES = ("devices", "pods", "holders", "processes", "events", "calls", "samples", "gaps")


def _piece(device: str, piece: Values) -> Iterator[str]:
    length_ns = piece["end_ns"] - piece["start_ns"]
    yield f"{device} ({piece['sharing']}), {_time(piece['start_ns'])} for {_seconds(length_ns)}"
    if piece["why_unknown"]:
        yield f"  nobody observed it: {_spaced(piece['why_unknown'])}"
    yield from _holders(piece["holding"])
    yield from _occupied(piece["occupied"])
    for price in piece["prices"]:
        yield f"  {_price(price)}"
    yield f"  C = {format_nano(piece['cost_nano'])}, of {_seconds(piece['gpu_ns'])} GPU time"
    for part in piece["parts"]:
        share = Fraction(part["weight"], part["of"])
        exact = Fraction(part["exact_nano"])
        yield (
            f"  {_who(part)}: {_spaced(part['category'])} = {FORMULAS[part['category']]}"
            f" = C x {share.numerator}/{share.denominator} = {_fraction(exact)} nano, in whole"
            f" {part['nano']} = {format_nano(part['nano'])}; {part['ns']} ns{_because(part['reason'])}"
        )


def _holders(holding: Values) -> Iterator[str]:
    if not holding["known"]:
        yield "  who holds it is not known"
    for holder in holding["holders"]:
        yield f"  held by {_who(holder)}: e = {holder['entitled']}"
    yield f"  held by nobody: e = {holding['free']} ({_spaced(holding['free_reason'])})"


def _occupied(occupied: Values | None) -> Iterator[str]:
    if occupied is None:
        return
    if occupied["ns"] is None:
        yield "  A is missing: no sample and no view of the kernel"
        return
    known_by = f"{_spaced(occupied['evidence'])}{_flags(occupied)}"
    yield f"  A = {occupied['share']:.9f} ({occupied['ns']} ns, {known_by})"
    for share in occupied["shares"]:
        yield (
            f"  {_who(share)}: a = {share['share']:.9f} ({share['ns']} ns, {_spaced(share['evidence'])},"
            f" between {share['low_ns']} and {share['high_ns']} ns{_flags(share)})"
        )


def _price(price: Values) -> str:
    if price["id"] is None:
        return f"no price from {_time(price['start_ns'])} for {_seconds(price['end_ns'] - price['start_ns'])}"
    where = f" ({price['where']})" if price["where"] else ""
    return (
        f"price {price['id']}{where}: {format_nano(price['unit_price_nano_per_hour'])} {price['currency']}"
        f" an hour per {price['per']}: {price['until_end_nano']} - {price['until_start_nano']} ="
        f" {price['nano']} nano"
    )


def _row(row: Values) -> Iterator[str]:
    who = f"{row['namespace']}/{row['pod']}" if row["pod"] else _who(row)
    container = f" [{row['container']}]" if row["container"] else ""
    yield f"  {row['device']} {who}{container}{_because(row['reason'])}: team {row['team'] or '(nobody)'}"
    for name in FORMULAS:
        nano = row[f"{name}_nano"]
        if row[f"{name}_ns"] or nano:
            money = "no price" if nano is None else f"{format_nano(nano)} {row['currency']}"
            yield f"    {_spaced(name)}: {row[f'{name}_ns']} ns, {money}"
    yield (
        f"    known by {_spaced(row['evidence'])}, used between {row['confidence_low_ns']} and"
        f" {row['confidence_high_ns']} ns{_flags(row)}"
    )


def _teams(teams: Sequence[Values]) -> Iterator[str]:
    for team in teams:
        by = f"rule {team['rule']} ({team['where']})" if team["rule"] else team["otherwise"]
        yield f"  {_who(team)} is {team['team'] or '(nobody)'}'s: {by}"


def _revisions(revisions: Sequence[Values] | None) -> Iterator[str]:
    if revisions is None:
        return
    yield ""
    yield "Revisions"
    for told in revisions:
        rank = told["revision"]
        yield (
            f"  {_time(told['append_ns'])} {told['place']}: {told['state']}, generation {rank['generation']},"
            f" {rank['inputs']} inputs, {told['total']}: {told['why']}"
        )


def _who(values: Values) -> str:
    if values["consumer_kind"] == "pool":
        return "(nobody)"
    return f"{values['consumer_kind']} {values['consumer']}"


def _because(reason: str) -> str:
    return "" if reason == "none" else f" ({_spaced(reason)})"


def _flags(values: Values) -> str:
    return "".join(f", {_spaced(flag)}" for flag in values["flags"])


def _spaced(word: str) -> str:
    return word.replace("_", " ")


def _fraction(value: Fraction) -> str:
    whole, rest = divmod(value.numerator, value.denominator)
    return str(whole) if not rest else f"{whole} + {rest}/{value.denominator}"


def _seconds(ns: int) -> str:
    return f"{ns // NS_PER_S}.{ns % NS_PER_S:09d}".rstrip("0").rstrip(".") + " s"


def _time(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
