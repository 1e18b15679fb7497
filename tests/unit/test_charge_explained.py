"""`gpuledger charge --explain`: each amount follows from the numbers that are printed, to the nano-unit.

The text is read as a person with a calculator reads it: nothing here asks the core.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.bills import (
    AGENT,
    ENGINE,
    LISTING,
    METRICS,
    NINE,
    PODS,
    PRICES,
    bill,
    exported,
    of_pod,
    printed,
    written,
)

HOUR_NS = 3_600_000_000_000
PARTS = ("used", "held idle", "unallocated", "unobserved")
PIECE = re.compile(r"  \[(\d+)\] (\d+) times .* s between .*: (?:C = (\d+) nano|no price) and (\d+) ns")
PRICE = re.compile(r"    cum\(t\) = floor\((\d+) x t / 3600e9\), t in ns since 1970(.*)")
SPENT = re.compile(r"    at (\d+) less at (\d+): (\d+) - (\d+) = (\d+) nano")
NUMBERS = re.compile(
    r"      \[(\d+)\] (\d+) times (\d+) x (.+) = (\d+)(?: \+ (\d+)/(\d+))? (nano|ns),"
    r" in whole (?:(\d+) nano and )?(\d+) ns"
    r"(?:, of which (\S+) is this container's: (?:(\d+) nano and )?(\d+) ns)?"
)
TOGETHER = re.compile(r"      together (?:(\d+) nano and )?(\d+) ns")


def value(text: str) -> Fraction:
    """A printed expression: decimals, fractions, +, -, x and /, in brackets; every number stays exact."""
    assert re.fullmatch(r"[0-9.()x/ -]+", text), text
    exact = re.sub(r"\d+(?:\.\d+)?", lambda found: f'Fraction("{found[0]}")', text.replace("x", "*"))
    return Fraction(eval(exact, {"Fraction": Fraction}))


class Device(NamedTuple):
    """A block of the text: its name, its own lines, and the lines of each bill line."""

    name: str
    own: list[str]
    lines: dict[str, list[str]]


def blocks(texts: Sequence[str]) -> Iterator[Device]:
    found: Device | None = None
    for text in texts[2:]:
        if not text:
            continue
        if not text.startswith(" "):
            if found:
                yield found
            found = Device(text, [], {})
        elif found and re.match(r"  \S.*: (?:[\d.]+ \S+ and )?\d+ ns of GPU time$", text):
            found.lines[text] = []
        elif found:
            (list(found.lines.values())[-1] if found.lines else found.own).append(text)
    if found:
        yield found


def cumulative(rate: int, rest: str, at_ns: int) -> int:
    """cum(t) of the device, by the rule that is printed behind the rate."""
    whole = rate * at_ns // HOUR_NS
    node = re.search(r"g\(t\) = floor\(cum\(t\) x ([\d.]+)\)", rest)
    if node:
        of_gpus = whole * Fraction(node[1]) // 1
        if "of the rest of the node" in rest:
            return whole - int(of_gpus)
        place = re.search(r"GPU (\d+) of (\d+)", rest)
        assert place
        whole = (int(of_gpus) + int(place[1])) // int(place[2])
    units = re.search(r"units ([\d, ]+) of (\d+)", rest)
    if units:
        return sum((whole + int(unit)) // int(units[2]) for unit in units[1].split(", "))
    return whole


def check_price(device: Device) -> int:
    """The price of the device over all of the time, recomputed."""
    total, rule = 0, None
    for text in device.own:
        rule = PRICE.fullmatch(text) or rule
        spent = SPENT.fullmatch(text)
        if spent and rule:
            end, start, after, before, nano = map(int, spent.groups())
            assert (after, before) == tuple(cumulative(int(rule[1]), rule[2], at) for at in (end, start))
            assert nano == after - before
            total += nano
    return total


def check_lines(device: Device) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """Money and ns of each part of each line, recomputed from the pieces."""
    pieces = {piece[1]: piece for text in device.own if (piece := PIECE.match(text))}
    found: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    parts_of: dict[str, dict[tuple[str, str], tuple[Fraction, int, int]]] = {number: {} for number in pieces}
    for name, texts in device.lines.items():
        nano, ns = found[name] = ({}, {})
        part = ""
        for text in texts:
            head = re.match(r"    (\S.*?) = ", text)
            if head:
                part = head[1]
                nano[part] = ns[part] = 0
            numbers, together = NUMBERS.fullmatch(text), TOGETHER.fullmatch(text)
            assert head or numbers or together or "see the price" in text, text
            if numbers:
                number, count, amount, factors = numbers.groups()[:4]
                piece = pieces[number]
                assert (count, amount) == (piece[2], piece[3] or piece[4])
                share = value(factors)
                shown = int(numbers[5]) + (Fraction(int(numbers[6]), int(numbers[7])) if numbers[6] else 0)
                assert share * int(amount) == shown
                whole_nano, whole_ns = int(numbers[9] or 0), int(numbers[10])
                consumer = re.sub(r" \[.*?\]", "", name.partition(": ")[0])
                parts_of[number][consumer, part] = share, whole_nano, whole_ns
                if numbers[11]:
                    of_container = value(numbers[11])
                    assert abs(of_container * whole_ns - int(numbers[13])) < 1
                    whole_nano, whole_ns = int(numbers[12] or 0), int(numbers[13])
                nano[part] += int(count) * whole_nano
                ns[part] += int(count) * whole_ns
            if together:
                assert (nano[part], ns[part]) == (int(together[1] or 0), int(together[2]))
    for number, parts in parts_of.items():
        cost, time = int(pieces[number][3] or 0), int(pieces[number][4])
        by_largest_remainder(cost, [(share, nano) for share, nano, _ in parts.values()])
        by_largest_remainder(time, [(share, ns) for share, _, ns in parts.values()])
    return found


def by_largest_remainder(amount: int, parts: Sequence[tuple[Fraction, int]]) -> None:
    """The parts are the amount; none is a whole unit off, and those rounded up have the largest rests."""
    assert sum(share for share, _ in parts) == 1
    assert sum(whole for _, whole in parts) == amount
    rests = [(share * amount - share * amount // 1, whole - share * amount // 1) for share, whole in parts]
    assert {up for _, up in rests} <= {0, 1}
    least = min((rest for rest, up in rests if up), default=Fraction(1))
    assert all(rest <= least for rest, up in rests if not up)


def check(*arguments: str) -> list[Device]:
    """Recompute the whole bill, and compare it with what it says."""
    answer = bill(*arguments, "--explain")
    devices = list(blocks(answer["explanation"]))
    expected = sorted(amounts(one) for one in answer["lines"])
    found: list[tuple[int, ...]] = []
    for device in devices:
        price, lines = check_price(device), check_lines(device)
        for nano, ns in lines.values():
            if "rest of the node" in device.name:
                nano["unallocated"] = price
            found.append((*(nano.get(part, 0) for part in PARTS), *(ns.get(part, 0) for part in PARTS)))
        assert price == sum(sum(nano.values()) for nano, _ in lines.values())
    assert sorted(found) == expected
    assert "\n".join(answer["explanation"]) in printed(*arguments, "--explain")
    return devices


def amounts(one: dict[str, Any]) -> tuple[int, ...]:
    names = [part.replace(" ", "_") for part in PARTS]
    return (*(one[f"{name}_nano"] or 0 for name in names), *(one[f"{name}_ns"] for name in names))


EXAMPLE = [*METRICS, "--for", "1h"]


def test_every_amount_of_the_example_follows_from_what_is_printed() -> None:
    """The idle 17 % of GPU-72aea9ce is divided by Z = 0.13 + 0.25 + 0.25 = 0.63, in 60 windows that cost
    204833333 or 204833334 nano each."""
    devices = check(*EXAMPLE, *PRICES, *LISTING, *PODS)
    (shared,) = (one for one in devices if "GPU-72aea9ce" in one.name)
    text = "\n".join(shared.own)
    assert "price h100, from 2026-03-02T08:00:00Z to 2026-03-02T09:00:00Z: 12.290000000 USD an hour" in text
    assert "40 times 60 s" in text
    assert "20 times 60 s" in text
    assert "A = 0.83 (device total)" in text
    assert (
        "serving/ranker-7d9f8c6b5-x2x7k: e = 0.25, a = 0.12 (process measured, between 0.07 and 0.17)" in text
    )
    assert "nobody: e = 0.25; Z = 0.63" in text
    ranker = next(texts for name, texts in shared.lines.items() if "ranker" in name)
    assert "    held idle = C x (1 - A) x max(0, e - a) / Z" in ranker
    assert any("204833333 x (1 - 0.83) x 0.13 / 0.63 = 7185423 + 1693/6300 nano" in text for text in ranker)


def test_every_amount_of_an_agents_records_follows_from_what_is_printed() -> None:
    """Each window is another: none is left out or averaged."""
    check(*AGENT, *PRICES)


def test_without_a_price_the_gpu_time_follows() -> None:
    check(*EXAMPLE, *LISTING)


def test_a_node_price_is_split_as_it_is_printed(tmp_path: Path) -> None:
    """98.32 an hour for a node of 8 GPUs, of which 0.9 is the GPUs': 11.061 for each, 9.832 for the rest."""
    prices = written(
        tmp_path,
        "prices.yaml",
        "kind: prices\nprices:\n"
        "  - {id: n, per: node, price_per_hour: 98.32, gpus_per_node: 8, gpu_share: 0.9}\n",
    )
    devices = check(*EXAMPLE, "--prices", prices)
    text = "\n".join(text for device in devices for text in device.own)
    assert "g(t) = floor(cum(t) x 0.9)" in text
    assert "GPU 1 of 8: floor((g(t) + 1) / 8)" in text
    assert any("(rest of the node)" in device.name for device in devices)


def test_a_mig_instance_costs_the_units_that_are_printed(tmp_path: Path) -> None:
    labels = ',GPU_I_PROFILE="2g.20gb",GPU_I_ID="3"' + of_pod("p")
    file = written(tmp_path, "m.txt", exported(ENGINE, 0, 0.25, labels))
    devices = check("--samples", f"{file}@{NINE}", "--for", "10m", *PRICES)
    assert any("units 0, 1 of 7" in text for device in devices for text in device.own)


def test_a_price_that_changes_inside_the_time_is_two_prices(tmp_path: Path) -> None:
    price = "id: {id}, per: gpu, price_per_hour: {rate}, effective_{edge}: 2026-03-02T08:20:30Z"
    entries = [price.format(id="old", rate=7, edge="to"), price.format(id="new", rate=13, edge="from")]
    text = "kind: prices\nprices:\n" + "".join(f"  - {{{one}}}\n" for one in entries)
    devices = check(*EXAMPLE, "--prices", written(tmp_path, "prices.yaml", text))
    for device in devices:
        assert sum("price old" in text or "price new" in text for text in device.own) == 2


def test_time_without_a_price_between_two_prices_is_said(tmp_path: Path) -> None:
    entry = "id: p, per: gpu, price_per_hour: 7, effective_from: 2026-03-02T08:20:30Z"
    text = f"kind: prices\nprices:\n  - {{{entry}}}\n"
    devices = check(*EXAMPLE, "--prices", written(tmp_path, "prices.yaml", text))
    text = "\n".join(devices[0].own)
    assert "no price from 2026-03-02T08:00:00Z to 2026-03-02T08:20:30Z" in text
    assert "30000000000 ns of it without a price" in text


def test_a_pod_of_two_containers_divides_its_part(tmp_path: Path) -> None:
    """Two containers of a pod hold a slot each, a third slot is another pod's: half of its idle for each."""
    devices = [
        {
            "resourceName": "nvidia.com/gpu.shared",
            "deviceIds": [f"GPU-5b0d2c7e-6a51-4f0e-8c51-0f6f3a6a9d10::{n}"],
        }
        for n in range(3)
    ]
    containers = [{"name": f"c{n}", "devices": [devices[n]]} for n in range(3)]
    pods = [
        {"name": "pair", "namespace": "ml", "containers": containers[:2]},
        {"name": "other", "namespace": "ml", "containers": containers[2:]},
    ]
    listing = written(tmp_path, "listing.json", json.dumps({"podResources": pods}))
    found = check(*EXAMPLE, *PRICES, "--holdings", listing)
    assert any(
        "of which 0.5 is this container's" in text
        for one in found
        for texts in one.lines.values()
        for text in texts
    )


def test_what_nobody_saw_is_explained(tmp_path: Path) -> None:
    """No scrape: A is missing, each holder pays C x e as unobserved."""
    found = check(*LISTING, "--for", "2m", "--at", NINE, *PRICES, "--gpu-model", "NVIDIA H100 80GB HBM3")
    text = "\n".join(text for one in found for texts in (one.own, *one.lines.values()) for text in texts)
    assert "A is missing: no sample says whether it worked" in text
    assert "unobserved = C x e" in text


@pytest.mark.parametrize("wrong", ["7185423 nano", "x 0.13 / 0.63", "= 0 + 17/2"])
def test_the_reader_of_this_file_reads_numbers_only(wrong: str) -> None:
    if re.fullmatch(r"[0-9.()x/ -]+", wrong):
        assert value(f"1 {wrong}") == Fraction(13, 63)
    else:
        with pytest.raises(AssertionError):
            value(wrong)
