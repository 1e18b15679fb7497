"""The bill as people read it: nothing of a device passes for a pod's, no amount is cut, all is said."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gpuledger.attribution import Charges, Policy, charge_window
from gpuledger.charge.bill import Bill, bill_of
from gpuledger.charge.show import print_bill
from gpuledger.charge.words import FLAGS_SAID
from gpuledger.contract.fields import Field
from gpuledger.contract.records import Holder, NodeLayout, PriceEntry
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Teams
from tests.support import charging as by_hand
from tests.support.bills import (
    ENGINE,
    LISTING,
    METRICS,
    NINE,
    PODS,
    PRICES,
    bill,
    exported,
    line,
    of_pod,
    printed,
    written,
)

UTIL, MEMORY, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE"
EXAMPLE = [*METRICS, "--for", "1h", *PRICES, *LISTING, *PODS]
SHARERS = ("finetune-0", "ranker-7d9f8c6b5-x2x7k", "embedder-5c4b7d9f6-q8wzt")
AMOUNT = re.compile(r"\d+\.\d{4}(?!\d)")
MIB = 1 << 20
DEAR = 123_456_789_000_000_000  # nano an hour: amounts of fourteen characters


def row_of(text: str, pod: str) -> str:
    (row,) = (one for one in text.splitlines() if pod in one and "GPU-" in one)
    return row


def test_what_the_silicon_counts_of_a_shared_device_is_nobodys_own() -> None:
    """All three on GPU-72aea9ce see its 61 %; alone on GPU-1f83cb94, resnet-train-0 has its own 55 %."""
    answer = bill(*EXAMPLE)
    for pod in SHARERS:
        mine = line(answer, pod)
        assert (mine["sm_active"], mine["device_sm_active"]) == (None, pytest.approx(0.61))
        assert mine["framebuffer_used_bytes"] is None
        assert "silicon_shared" in mine["flags"]
    alone = line(answer, "resnet-train-0")
    assert (alone["sm_active"], alone["device_sm_active"]) == (pytest.approx(0.55), pytest.approx(0.55))


def test_the_table_says_whose_the_silicons_values_are() -> None:
    text = printed(*EXAMPLE)
    assert all("61.0 of device" in row_of(text, pod) for pod in SHARERS)
    assert "of device" not in row_of(text, "resnet-train-0")
    assert "55.0" in row_of(text, "resnet-train-0")
    assert "SM active is of the whole device, on which others were too: it is nobody's own" in text


def test_utilisation_of_a_whole_device_is_no_measurement_of_its_pod() -> None:
    """Only the exporter's values of pods apart are of pods; GPU_UTIL 74 of an exclusive GPU is the GPU's."""
    answer = bill(*EXAMPLE)
    assert line(answer, "resnet-train-0")["evidence"] == "equal_slots"
    assert all(line(answer, pod)["evidence"] == "process_measured" for pod in SHARERS)
    assert "alone there" in row_of(printed(*EXAMPLE), "resnet-train-0")


def test_where_nothing_was_measured_no_value_is_shown_and_none_is_remarked_upon() -> None:
    """Without a scrape nobody knows what ran: used is not 0 %, and there is no SM active to be anyone's."""
    text = printed(*LISTING, "--for", "1h", "--at", NINE)
    assert not re.search(r"\d\.\d\d? of device| 0\.0 ", text)
    assert "SM active is of the whole device" not in text


def test_every_flag_has_words() -> None:
    assert set(FLAGS_SAID) == set(Flag)


@pytest.mark.parametrize("flag", list(Flag), ids=lambda flag: str(flag.name))
def test_a_flag_of_a_line_is_said_under_the_table(flag: Flag) -> None:
    found = one_device()
    found.lines[0].flags = int(flag)
    assert FLAGS_SAID[flag] in shown(found, 120)


def one_device(rate_nano: int = 12_290_000_000) -> Bill:
    return bill_of([charges_of_node("n", rate_nano)])


def charges_of_node(node: str, rate_nano: int = 12_290_000_000) -> Charges:
    """A pod that holds a GPU and used half of ten seconds."""
    layout = NodeLayout(devices=[by_hand.gpu()])
    state = by_hand.state(layout, [Holder("pod-a", 0)], [by_hand.pod_process(1, "pod-a")])
    fields = (Field.ENGINE_ACTIVE, Field.SM_ACTIVE)
    measured = by_hand.samples([(field, 0.0, 10.0, 0.5) for field in fields], sequence=1)
    price = PriceEntry("gpu", "gpu", rate_nano, "USD")
    window = by_hand.window([state], sampled=[measured])
    return charge_window(replace(window, node=node), by_hand.prices(price), Teams())


def shown(found: Bill, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, no_color=True, highlight=False)
    print_bill(console, found, ["something"])
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [80, 100, 120, 180])
@pytest.mark.parametrize("rate_nano", [12_290_000_000, DEAR], ids=["cheap", "dear"])
def test_no_amount_is_cut_at_any_width(width: int, rate_nano: int) -> None:
    found = one_device(rate_nano)
    text = shown(found, width)
    assert "…" not in text
    (mine,) = (one for one in found.lines if not one.is_pool)
    amounts = (mine.nano["used"], mine.nano["held_idle"], mine.total_nano)
    (row,) = (one for one in text.splitlines() if "GPU-" in one and "pod-pod-a" in one)
    assert set(AMOUNT.findall(row)) >= {f"{nano / 1e9:.4f}" for nano in amounts}
    assert rate_nano == DEAR or all(len(one.rstrip()) <= width for one in text.splitlines())


@pytest.mark.parametrize("width", [80, 100, 120, 180])
def test_no_amount_of_several_nodes_is_cut_at_any_width(width: int) -> None:
    windows = [charges_of_node(f"ip-10-0-{number}-17.eu-west-1.compute.internal") for number in range(3)]
    found = bill_of(windows)
    text = shown(found, width)
    assert "3 nodes" in text
    assert "…" not in text
    amounts = {f"{nano / 1e9:.4f}" for one in found.lines for nano in (one.nano["used"], one.total_nano)}
    assert set(AMOUNT.findall(text)) >= amounts
    assert all(len(one.rstrip()) <= width for one in text.splitlines())


@pytest.mark.parametrize("width", [80, 100, 120, 180])
def test_what_a_narrow_terminal_leaves_out_is_named(width: int) -> None:
    text = shown(one_device(), width)
    (head,) = (one for one in text.splitlines() if "held idle" in one and "GPU " in one)
    named = " ".join(text.split("Left out for want of width:")[1:])
    for column in ("known by", "SM active %", "memory", "holds %", "unobserved", "total", "used"):
        assert column in head or column in named


def test_a_pipe_gets_every_column_of_several_nodes_whole(tmp_path: Path) -> None:
    name = "a-pod-whose-name-is-as-long-as-kubernetes-allows-it-to-be-and-more-0"
    lines = [exported(ENGINE, gpu, 0.5, of_pod(f"{name}-{gpu}"), host=f"node-{gpu}") for gpu in range(3)]
    text = printed("--samples", f"{written(tmp_path, 'm.txt', *lines)}@{NINE}", *PRICES)
    (head,) = (one for one in text.splitlines() if "held idle" in one and "GPU " in one)
    assert re.split(r"\s{2,}", head.strip()) == [
        *("node", "GPU", "who", "team", "holds %", "used %", "used", "held idle", "unallocated"),
        *("unobserved", "total", "SM active %", "memory", "known by", "notes"),
    ]
    for gpu in range(3):
        row = row_of(text, f"{name}-{gpu}")
        assert f"node-{gpu}" in row
        assert "alone there" in row
        assert AMOUNT.findall(row) == ["6.1450", "6.1450", "0.0000", "0.0000", "12.2900"]
    assert "…" not in text


def test_names_in_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    """Square brackets are markup for the table's library, and not for whoever named a node or a model."""
    text = exported(ENGINE, 0, 0.5, of_pod("[red]p[/red]"), host="[bold]n[/bold]", model="[i]A[/i]")
    shown_text = printed("--samples", f"{written(tmp_path, 'm.txt', text)}@{NINE}")
    for name in ("[red]p[/red]", "[bold]n[/bold]", "[i]A[/i]"):
        assert name in shown_text


def test_a_bill_without_prices_shows_hours_and_no_money() -> None:
    text = printed(*METRICS, "--for", "1h")
    assert "GPU-hours;" in text
    assert "0.7000" in row_of(text, "resnet-train-0")


def test_memory_of_each_sharer_is_what_the_exporter_measured_of_it() -> None:
    """FB_USED of the pods is 20781, 10542 and 15662 MiB; of the whole device 47105, which is nobody's own."""
    answer = bill(*EXAMPLE)
    own = [line(answer, pod)["memory_bytes"] for pod in SHARERS]
    assert own == [20781 * MIB, 10542 * MIB, 15662 * MIB]
    assert line(answer, SHARERS[0])["device_framebuffer_used_bytes"] == 47105 * MIB
    assert line(answer, "resnet-train-0")["memory_bytes"] == 41263 * MIB
    assert "10.29 GiB" in row_of(printed(*EXAMPLE), SHARERS[1])


def test_memory_that_nobody_booked_is_always_listed(tmp_path: Path) -> None:
    """Nobody holds GPU 0, where 30000 MiB lie. On GPU 1 `held` has 10000, `stray` is in no listing
    and has 5000 MiB, and 1000 of the device's 16000 are of neither."""
    listing = written(
        tmp_path,
        "listing.json",
        '{"podResources": [{"name": "held", "namespace": "ml", "containers": [{"name": "main", "devices":'
        ' [{"resourceName": "nvidia.com/gpu.shared",'
        ' "deviceIds": ["GPU-00000001-0000-0000-0000-000000000000::0"]}]}]}]}',
    )
    metrics = written(
        tmp_path,
        "m.txt",
        exported(MEMORY, 0, 30000),
        exported(MEMORY, 1, 16000),
        exported(MEMORY, 1, 10000, of_pod("held", 0)),
        exported(MEMORY, 1, 5000, of_pod("stray", 1)),
        *(exported(ENGINE, gpu, 0.0) for gpu in (0, 1)),
    )
    given = ["--samples", f"{metrics}@{NINE}", "--holdings", listing]
    found = {
        (one["device"][:12], one["pod"]): one["mean_bytes"] / MIB for one in bill(*given)["unbooked_memory"]
    }
    assert found == {
        ("GPU-00000000", None): 30000,
        ("GPU-00000001", "stray"): 5000,
        ("GPU-00000001", None): 1000,
    }
    text = printed(*given)
    assert "29.30 GiB, of no known consumer" in text
    assert "4.88 GiB, of ml/stray" in text
    assert FLAGS_SAID[Flag.UNBOOKED_MEMORY] in text


def test_unbooked_memory_of_two_containers_is_their_pods_together() -> None:
    """30 GiB and 10 GiB of one pod that holds nothing here."""
    gib = 1 << 30
    state = by_hand.state(
        NodeLayout(devices=[by_hand.gpu()]),
        processes=[by_hand.pod_process(pid, "stray", container=f"c{pid}") for pid in (1, 2)],
        resident=[(0, 0, 30 * gib), (1, 0, 10 * gib)],
    )
    found = bill_of([charge_window(by_hand.window([state]), by_hand.prices(), Teams())])
    (stray,) = found.unbooked
    assert (stray.owner.consumer, stray.mean_bytes, stray.peak_bytes) == ("stray", 40 * gib, 40 * gib)


def test_memory_speaks_for_the_time_of_its_own_scrape(tmp_path: Path) -> None:
    """`a` has 1000 MiB for 20 minutes, then 4000 for 40: 3000 in the mean, 4000 at most; all is booked."""

    def at(size: int) -> list[str]:
        pods = [exported(MEMORY, 0, part, of_pod(name, 0)) for name, part in (("a", size), ("b", 500))]
        return [exported(ENGINE, 0, 0.0), exported(MEMORY, 0, size + 500), *pods]

    files = [
        f"{written(tmp_path, f'{name}.txt', *at(size))}@2026-03-02T{name}:00Z"
        for name, size in (("08:00", 9000), ("08:20", 1000), ("09:00", 4000))
    ]
    answer = bill(*(argument for file in files for argument in ("--samples", file)))
    mine = line(answer, "a")
    assert (mine["memory_bytes"], mine["memory_peak_bytes"]) == (3000 * MIB, 4000 * MIB)
    assert answer["unbooked_memory"] == []


def test_where_nothing_measures_memory_that_is_said(tmp_path: Path) -> None:
    metrics = written(tmp_path, "m.txt", exported(ENGINE, 0, 0.5))
    assert "nobody booked: not known" in printed("--samples", f"{metrics}@{NINE}")


def test_the_policy_is_given_with_its_length_and_every_setting() -> None:
    """What a policy is named by decides who pays for idle moments: none of it may be lost."""
    assert {one["policy"] for one in bill(*EXAMPLE)["lines"]} == {"pay/60s"}
    assert "Policy of idle and borrowed time: pay/60s" in printed(*EXAMPLE)


def test_a_line_over_windows_of_several_lengths_names_each_policy() -> None:
    found = bill_of(charges_of_length(seconds) for seconds in (10, 5))
    assert all(one.policies == {"pay/10s/mig=dominant", "pay/5s/mig=dominant"} for one in found.lines)


def charges_of_length(seconds: int) -> Charges:
    layout = NodeLayout(devices=[by_hand.gpu()])
    length = seconds * by_hand.S
    state = by_hand.state(layout, header=by_hand.header(0, window_length_ns=length))
    window = by_hand.window([state], length=length, policy=Policy(mig="dominant"))
    return charge_window(window, by_hand.prices(), Teams())
