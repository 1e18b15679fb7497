"""The arithmetic of each line in words: every number that its amount follows from, to the nano-unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey
from gpuledger.attribution.formula import Category
from gpuledger.charge.arithmetic import Arithmetic, Counted, Part, Priced, Seen, Step
from gpuledger.charge.bill import Bill, DeviceName, Line
from gpuledger.charge.words import device_of, who_of
from gpuledger.contract.money import NANO_PER_UNIT, format_nano
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing import NON_GPU

_PLACES = 12  # decimals up to which a number is not written as a fraction
_HEAD = (
    "How each line comes about. C: the cost of a piece of time in nano, 1e-9 of the currency. A: the part of"
    " it in which the device worked. a: a consumer's part of that. e: the part that it holds. What is not"
    " whole is rounded once in each piece, by largest remainder."
)


def explanation(bill: Bill, arithmetic: Arithmetic, decided: Sequence[str] = ()) -> Iterator[str]:
    """The lines of text: what was ``decided`` of policies, then each device with its price and pieces, and
    the lines of the bill that it has."""
    names = {ConsumerKey(line.key["consumer_kind"], line.key["consumer"]): line.who for line in bill.lines}
    number = 0
    yield ""
    yield _HEAD
    yield from (f"  {text}" for text in decided)
    for name, mine in bill.by_device.items():
        steps = {number + at: one for at, one in enumerate(arithmetic.device(name), 1)}
        number += len(steps)
        yield ""
        yield from _device(name, mine[0], arithmetic, steps, names)
        for line in mine:
            yield from _line(line, steps)


def _device(
    name: DeviceName,
    line: Line,
    arithmetic: Arithmetic,
    steps: Mapping[int, Counted],
    names: Mapping[ConsumerKey, str],
) -> Iterator[str]:
    yield f"{line.node} {device_of(line)}"
    for price in arithmetic.prices(name):
        yield from _price(price)
    told: dict[Seen, int] = {}
    for number, one in steps.items():
        step = one.step
        cost = f"C = {step.cost_nano} nano" if step.priced else "no price"
        without = f", {step.unpriced_ns} ns of it without a price" if step.priced and step.unpriced_ns else ""
        yield (
            f"  [{number}] {one.count} times {_seconds(step.seen.length_ns)} between {_time(one.start_ns)}"
            f" and {_time(one.end_ns)}: {cost} and {step.time_ns} ns of GPU time each{without}"
        )
        if step.seen in told:
            yield f"      the rest as in [{told[step.seen]}]"
        else:
            told[step.seen] = number
            yield from (f"      {text}" for text in _seen(step.seen, names))


def _price(price: Priced) -> Iterator[str]:
    piece, device = price.piece, price.device
    between = f"from {_time(piece.start_ns)} to {_time(piece.end_ns)}"
    if piece.entry is None:
        yield f"  no price {between}"
        return
    rate = format_nano(piece.unit_price_nano_per_hour)
    yield f"  price {piece.entry.id}, {between}: {rate} {price.currency} an hour per {piece.entry.per}"
    how = f"cum(t) = floor({piece.unit_price_nano_per_hour} x t / 3600e9), t in ns since 1970"
    if piece.entry.per == "node":
        share = _exact(Fraction(piece.entry.gpu_share_ppb, NANO_PER_UNIT))
        how += f"; of the GPUs: g(t) = floor(cum(t) x {share})"
        if device.position == NON_GPU:
            how += "; of the rest of the node: cum(t) - g(t)"
        else:
            how += f"; GPU {device.position} of {device.gpu_count}: floor((g(t) + {device.position}) /"
            how += f" {device.gpu_count})"
    if device.units_total:
        units = ", ".join(map(str, device.units))
        how += f"; of that, units {units} of {device.units_total}: the sum of floor((it + unit) /"
        how += f" {device.units_total})"
    yield f"    {how}"
    yield (
        f"    at {piece.end_ns} less at {piece.start_ns}: {price.after} - {price.before} ="
        f" {price.after - price.before} nano"
    )


def _seen(seen: Seen, names: Mapping[ConsumerKey, str]) -> Iterator[str]:
    if not seen.observed:
        yield f"nobody observed it ({seen.evidence.replace('_', ' ')})" if seen.evidence else "nobody uses it"
        return
    length = seen.length_ns
    if seen.occupied_ns is None:
        yield "A is missing: no sample says whether it worked"
    else:
        yield f"A = {_exact(Fraction(seen.occupied_ns, length))} ({seen.evidence.replace('_', ' ')})"
    if not seen.holding.known:
        yield "who holds it is not known"
    entitled, used = _entitled(seen), {one.consumer: one for one in seen.used}
    for key in sorted(entitled.keys() | used.keys()):
        said = f"{names.get(key, ' '.join(key))}: e = {_exact(entitled.get(key, Fraction(0)))}"
        one = used.get(key)
        if one is not None:
            low, high = (_exact(Fraction(bound, length)) for bound in (one.low_ns, one.high_ns))
            said += f", a = {_exact(Fraction(one.used_ns, length))} ({one.evidence.replace('_', ' ')},"
            said += f" between {low} and {high})"
        yield f"{said}, max(0, e - a) = {_exact(_wanting(seen, key))}"
    if seen.holding.known:
        yield f"nobody: e = {_exact(_free(seen))}; Z = {_exact(_z(seen))}, what of all e was not used"


def _line(line: Line, steps: Mapping[int, Counted]) -> Iterator[str]:
    currency = line.said["currency"]
    money = f"{format_nano(line.total_nano)} {currency} and " if line.priced else ""
    reason = line.key["reason"]
    because = "" if reason in ("none", "free") else f", {reason.replace('_', ' ')}"
    yield f"  {who_of(line)}{because}: {money}{line.total_ns} ns of GPU time"
    if line.is_node:
        yield "    what the node costs and no GPU of it: see the price"
    for category in Category:
        parts = [(number, one, part) for number, one in steps.items() for part in one.step.parts
                 if part.place == line.place and part.category is category]  # fmt: skip
        if not parts:
            continue
        name = category.name.lower()
        formulas = dict.fromkeys(_formula(one.step, part)[0] for _, one, part in parts)
        yield f"    {name.replace('_', ' ')} = {', or '.join(formulas)}"
        for number, one, part in parts:
            yield f"      [{number}] {one.count} times {_amount(one.step, part)}"
        money = f"{line.nano[name]} nano and " if line.priced else ""
        yield f"      together {money}{line.ns[name]} ns"


def _amount(step: Step, part: Part) -> str:
    whole = step.cost_nano if step.priced else step.time_ns
    unit = "nano" if step.priced else "ns"
    exact = part.share * whole
    floor, rest = divmod(exact.numerator, exact.denominator)
    fraction = f" + {rest}/{exact.denominator}" if rest else ""
    result = f"{part.nano} nano and {part.ns} ns" if step.priced else f"{part.ns} ns"
    said = f"{whole} x {_formula(step, part)[1]} = {floor}{fraction} {unit}, in whole {result}"
    if part.of_container != 1:
        own = f"{part.own_nano} nano and {part.own_ns} ns" if step.priced else f"{part.own_ns} ns"
        said += f", of which {_exact(part.of_container)} is this container's: {own}"
    return said


def _formula(step: Step, part: Part) -> tuple[str, str]:
    """The formula of a part, and the same in numbers."""
    seen = step.seen
    symbol = "C" if step.priced else "T"
    share = _exact(part.share)
    if not seen.observed:
        return f"{symbol}, all of it", "1" if part.share == 1 else share
    used = {one.consumer: Fraction(one.used_ns, seen.length_ns) for one in seen.used}
    reserved = seen.burst == "reserved_first"
    if part.category is Category.USED:
        capped = reserved and seen.holding.known and seen.occupied_ns is not None
        return f"{symbol} x {'min(a, e)' if capped else 'a'}", share
    if seen.occupied_ns is None:
        return f"{symbol} x e", share
    occupied = Fraction(seen.occupied_ns, seen.length_ns)
    everyone = _exact(sum(used.values()))
    if not seen.holding.known:
        return f"{symbol} x (1 - the sum of a)", f"(1 - {everyone})"
    what, much = "(1 - A)", f"(1 - {_exact(occupied)})"
    if part.category is Category.UNOBSERVED:
        what, much = "(A - the sum of a)", f"({_exact(occupied)} - {everyone})"
        if not reserved:
            return f"{symbol} x {what}", much
    elif part.reason == "lent":
        what, much = "the sum of max(0, a - e)", _exact(_borrowed(seen))
    pool = part.consumer == THE_POOL
    if pool and part.reason == "held":
        whose, mine = "the sum of max(0, e - a)", _z(seen) - _free(seen)
    else:
        whose = "what nobody holds" if pool else "max(0, e - a)"
        mine = _free(seen) if pool else _wanting(seen, part.consumer)
    return f"{symbol} x {what} x {whose} / Z", f"{much} x {_exact(mine)} / {_exact(_z(seen))}"


def _entitled(seen: Seen) -> dict[ConsumerKey, Fraction]:
    holding = seen.holding
    return {one.consumer: Fraction(one.weight, holding.denominator) for one in holding.entitlements}


def _wanting(seen: Seen, key: ConsumerKey) -> Fraction:
    """max(0, e - a) of a consumer."""
    used = sum(one.used_ns for one in seen.used if one.consumer == key)
    return max(Fraction(0), _entitled(seen).get(key, Fraction(0)) - Fraction(used, seen.length_ns))


def _borrowed(seen: Seen) -> Fraction:
    """What all used above what they hold."""
    entitled = _entitled(seen)
    lent = Fraction(0)
    for one in seen.used:
        share = Fraction(one.used_ns, seen.length_ns)
        lent += max(Fraction(0), share - entitled.get(one.consumer, Fraction(0)))
    return lent


def _free(seen: Seen) -> Fraction:
    return Fraction(seen.holding.free_weight, seen.holding.denominator)


def _z(seen: Seen) -> Fraction:
    return sum((_wanting(seen, key) for key in _entitled(seen)), _free(seen))


def _exact(value: Fraction | int) -> str:
    """A decimal where few places hold it, else a fraction in brackets."""
    scaled = value * 10**_PLACES
    if scaled == int(scaled):
        return format(Decimal(int(scaled)).scaleb(-_PLACES).normalize(), "f")
    return f"({Fraction(value).numerator}/{Fraction(value).denominator})"


def _seconds(ns: int) -> str:
    return _exact(Fraction(ns, NS_PER_S)) + " s"


def _time(ns: int) -> str:
    whole = datetime.fromtimestamp(ns // NS_PER_S, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    rest = f".{ns % NS_PER_S:09d}" if ns % NS_PER_S else ""
    return f"{whole}{rest}Z"
