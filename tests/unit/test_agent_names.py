"""Pods whose name comes late: what waits for it, what does not, and what is amended."""

from __future__ import annotations

from dataclasses import replace

from gpuledger.agent.devices import DeviceRef
from gpuledger.agent.holders.source import HeldDevice, Holders
from gpuledger.agent.pending import KEEP_NS
from gpuledger.agent.rules import EVENT_GRACE_NS, NAME_WAIT_NS
from gpuledger.agent.state import View
from gpuledger.agent.windows import Part
from gpuledger.attribution import Charges, NodeWindow, charge_window, check_record
from gpuledger.contract.operations import Operation
from gpuledger.contract.records import EventBatch, Holdings, Pod, SampleBatch, decode, encode
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Teams
from tests.support.agent import CONTAINER, MS, POD, Bench, S, event, joined, raw, uuid
from tests.support.charging import prices

W = 10 * S
NAMED = Holders(
    pods=(Pod(POD, "research", "train-0", "Running", {"team": "vision"}),),
    container_names={CONTAINER: "main"},
)
NAMELESS = Holders(pods=(Pod("another"),))


def bench(holders: Holders | None = NAMELESS, **options: int) -> Bench:
    """Process 1 lives in the pod's cgroup; ``holders`` are what the cluster has said so far."""
    made = Bench(**options)  # type: ignore[arg-type]
    made.state.view = View(holders)
    made.state.latest = holders
    return made


def tell(bench: Bench, at_ns: int, holders: Holders = NAMED) -> None:
    """The cluster tells at that instant."""
    bench.state.latest = holders
    bench.cutter.change(at_ns, View(holders))


def keyframes(parts: list[Part]) -> list[Holdings]:
    return [part for part in parts if isinstance(part, Holdings) and part.keyframe]


def amendments(parts: list[Part]) -> list[Holdings]:
    return [part for part in parts if isinstance(part, Holdings) and part.header.amendment]


def first_window(bench: Bench) -> list[Part]:
    """Window 0, whose keyframe goes out with the agent's start, up to the border."""
    return bench.advance(W + EVENT_GRACE_NS)


def test_a_keyframe_waits_for_the_name_and_the_window_before_does_not() -> None:
    b = bench()
    parts = first_window(b)
    assert parts[-1].header.last
    assert [k.time_ns for k in keyframes(parts)] == [0]
    assert b.advance(W + 5 * S) == []
    tell(b, W + 6 * S)
    (keyframe,) = keyframes(b.advance(W + 6 * S))
    assert (keyframe.time_ns, keyframe.header.part) == (W, 0)
    assert [(p.pending, p.container) for p in keyframe.processes] == [(False, "main")]
    assert [pod.name for pod in keyframe.pods] == ["train-0"]


def test_what_changed_while_the_keyframe_waited_holds_from_its_own_instant() -> None:
    b = bench()
    first_window(b)
    held = Holders(pods=NAMED.pods, held=(HeldDevice(POD, DeviceRef(uuid=uuid(0))),))
    tell(b, W + 6 * S, held)
    parts = b.advance(W + 6 * S + EVENT_GRACE_NS)
    states = [part for part in parts if isinstance(part, Holdings) and not part.header.amendment]
    assert [(s.time_ns, len(s.holders)) for s in states] == [(W, 0), (W + 6 * S, 1)]


def test_events_of_the_time_of_waiting_come_after_the_keyframe_and_are_not_in_it() -> None:
    b = bench()
    first_window(b)
    b.cutter.add_events(event(W + S, Operation.ALLOCATE_DEVICE, bytes=100))
    assert b.advance(W + 3 * S) == []
    tell(b, W + 6 * S)
    (keyframe,) = keyframes(b.advance(W + 6 * S))
    assert keyframe.resident_bytes.tolist() == []
    parts = b.advance(2 * W + EVENT_GRACE_NS)
    assert [part.time_ns.tolist() for part in parts if isinstance(part, EventBatch)] == [[W + S]]
    assert keyframes(parts)[0].resident_bytes.tolist() == [100]


def test_a_keyframe_never_waits_beyond_its_window_s_end() -> None:
    b = bench()
    first_window(b)
    assert b.advance(2 * W - 1) == []
    (keyframe,) = keyframes(b.advance(2 * W))
    assert [p.pending for p in keyframe.processes] == [True]
    assert b.advance(2 * W + EVENT_GRACE_NS)[-1].header.last


def test_a_full_part_does_not_wait_behind_a_keyframe() -> None:
    b = bench(max_events=3)
    first_window(b)
    b.cutter.add_events(joined([event(W + i * MS) for i in range(3)]))
    parts = b.advance(W + S)
    assert [type(part) for part in parts] == [Holdings, EventBatch]


def test_after_thirty_seconds_a_process_is_waited_for_no_more() -> None:
    b = bench(length_ns=60 * S)
    b.advance(60 * S + EVENT_GRACE_NS)
    waits_from = 60 * S + EVENT_GRACE_NS
    assert b.advance(waits_from + NAME_WAIT_NS - 1) == []
    assert keyframes(b.advance(waits_from + NAME_WAIT_NS))
    assert keyframes(b.advance(120 * S + EVENT_GRACE_NS)), "nor in any later window"


def test_where_nobody_can_tell_names_nothing_waits() -> None:
    b = bench(None)
    assert [k.time_ns for k in keyframes(first_window(b))] == [0, W]


def test_a_stop_does_not_wait_for_a_name() -> None:
    b = bench()
    first_window(b)
    parts = list(b.cutter.finish(W + 2 * S, goodbye=True))
    assert isinstance(parts[0], Holdings)
    assert parts[0].keyframe
    assert parts[-1].header.goodbye


def test_a_name_that_comes_later_amends_every_window_that_went_out_without_it() -> None:
    b = bench()
    b.cutter.add_events(event(2 * S))
    sent = first_window(b) + b.advance(2 * W + EVENT_GRACE_NS) + b.advance(3 * W + EVENT_GRACE_NS)
    assert amendments(sent) == []
    tell(b, 3 * W + 2 * S)
    parts = b.advance(3 * W + 2 * S + EVENT_GRACE_NS)
    found = amendments(parts)
    assert [a.header.window_start_ns for a in found] == [0, W, 2 * W]
    for amendment in found:
        assert not amendment.header.last
        assert not amendment.keyframe
        assert [(p.pid, p.pending, p.container) for p in amendment.processes] == [(1, False, "main")]
        assert [pod.name for pod in amendment.pods] == ["train-0"]
    assert amendments(b.advance(5 * W)) == [], "each is amended once"


def test_an_amendment_has_its_place_in_the_sequence_and_is_no_part() -> None:
    b = bench()
    sent = first_window(b)
    tell(b, W + S)
    sent += b.advance(W + 2 * S)
    sent += b.advance(2 * W + EVENT_GRACE_NS)
    assert [p.header.sequence for p in sent] == list(range(len(sent)))
    parts = [p.header.part for p in sent if p.header.window_start_ns == W and not p.header.amendment]
    assert parts == list(range(len(parts)))


def test_a_name_that_comes_within_the_window_needs_no_amendment() -> None:
    b = bench()
    b.advance(S)
    tell(b, 2 * S)
    parts = b.advance(W + EVENT_GRACE_NS)
    assert any(part for part in parts if isinstance(part, Holdings) and part.time_ns == 2 * S)
    assert amendments(parts + b.advance(3 * W)) == []


def test_a_process_that_ended_before_its_name_came_is_amended_too() -> None:
    b = bench()
    b.cutter.add_events(b.resolve(raw(2 * S, pid=1)))
    b.reader.gone = [1]
    b.state.note_ends(3 * S)
    first_window(b)
    tell(b, W + S)
    (amendment,) = amendments(b.advance(W + 2 * S))
    assert [(p.pid, p.ended_ns) for p in amendment.processes] == [(1, 3 * S)]


def test_a_name_that_comes_after_an_hour_amends_nothing_older() -> None:
    b = bench()
    first_window(b)
    last = KEEP_NS // W + 1
    for number in range(2, last + 1):
        b.advance(number * W + EVENT_GRACE_NS)
    tell(b, last * W + S)
    found = amendments(b.advance(last * W + 2 * S))
    assert [a.header.window_start_ns // W for a in found] == list(range(1, last))


def test_a_pod_that_begins_inside_a_window_is_named_within_it() -> None:
    b = bench(NAMED)
    b.advance(S)
    b.cutter.add_events(event(2 * S))
    parts = b.advance(W + EVENT_GRACE_NS)
    window = [part for part in parts if part.header.window_start_ns == 0]
    assert [type(part) for part in window] == [EventBatch, Holdings, SampleBatch]
    assert isinstance(window[1], Holdings)
    assert (window[1].time_ns, [pod.name for pod in window[1].pods]) == (W - 1, ["train-0"])
    assert amendments(b.advance(3 * W)) == []


def test_a_short_process_is_named_within_its_window_when_the_name_comes_in_it() -> None:
    b = bench()
    b.advance(S)
    b.cutter.add_events(b.resolve(raw(2 * S, pid=1)))
    b.reader.gone = [1]
    b.state.note_ends(3 * S)
    tell(b, 5 * S)
    parts = first_window(b)
    states = [part for part in parts if isinstance(part, Holdings) and part.header.window_start_ns == 0]
    assert [pod.name for state in states for pod in state.pods] == ["train-0"]
    assert amendments(parts + b.advance(3 * W)) == []


def test_a_change_of_a_pod_that_has_nothing_to_do_with_a_gpu_is_no_record() -> None:
    b = bench(NAMED)
    b.cutter.add_events(event(S))
    b.advance(2 * S)
    tell(b, 3 * S, replace(NAMED, pods=(*NAMED.pods, Pod("web", "shop", "web-0"))))
    assert [type(part) for part in b.advance(4 * S)] == []
    tell(b, 5 * S, replace(NAMED, pods=(replace(NAMED.pods[0], labels={"team": "audio"}),)))
    (batch, change) = b.advance(6 * S)
    assert isinstance(batch, EventBatch)
    assert isinstance(change, Holdings)
    assert [pod.labels for pod in change.pods] == [{"team": "audio"}]


def charged(parts: list[Part], start_ns: int) -> Charges:
    """The window charged from what went over the wire."""
    bodies = [decode(type(part), encode(part)) for part in parts if part.header.window_start_ns == start_ns]
    for body in bodies:
        check_record(body)
    window = NodeWindow(
        "cluster",
        "node",
        start_ns,
        W,
        Revision(0, len(bodies), 0, CORE_VERSION),
        holdings=[body for body in bodies if isinstance(body, Holdings)],
        events=[body for body in bodies if isinstance(body, EventBatch)],
        samples=[body for body in bodies if isinstance(body, SampleBatch)],
    )
    return charge_window(window, prices(), Teams())


def test_a_name_that_comes_late_moves_the_charge_to_the_pod_and_its_team() -> None:
    b = bench()
    b.cutter.add_events(
        b.resolve(raw(2 * S), raw(6 * S, Operation.SYNCHRONIZE_CONTEXT, duration_ns=4 * S), raw(7 * S))
    )
    sent = first_window(b)
    before = charged(sent, 0)
    tell(b, W + S)
    sent += b.advance(W + 2 * S)
    after = charged(sent, 0)
    rows = [[r.values for r in charges.rows() if r.values["consumer"] == POD] for charges in (before, after)]
    assert [[(v["pod"], v["namespace"], v["team"]) for v in group] for group in rows] == [
        [("", "", "")],
        [("train-0", "research", "vision")],
    ]
    assert rows[0][0]["used_ns"] == rows[1][0]["used_ns"] > 0
    assert [v["container"] for v in rows[1]] == ["main"]
    assert before.conservation_error_nano == after.conservation_error_nano == 0
