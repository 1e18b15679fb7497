"""A service that stands still is told of, with where its threads are, and ended."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from gpuledger.contract.clock import NS_PER_S, ManualClock
from gpuledger.contract.errors import KafkaUnavailable
from gpuledger.logs import Event
from gpuledger.serving.watch import EXIT_STUCK, Watch, stacks


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_thread_that_comes_round_in_time_goes_on(clock: ManualClock) -> None:
    watch = Watch(clock, end=lambda status: pytest.fail("it came round"))
    pulse = watch.pulse("reading", 300)
    for _ in range(5):
        pulse.beat()
        clock.advance(300 * NS_PER_S)
        assert watch.look()


def test_a_thread_that_does_not_come_round_ends_the_process(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[int] = []
    watch = Watch(clock, end=ended.append)
    pulse = watch.pulse("reading", 300)
    watch.pulse("warehouse", 900).beat()
    pulse.beat()
    clock.advance(301 * NS_PER_S)
    assert not watch.look()
    assert ended == [EXIT_STUCK]
    (record,) = caplog.records
    assert isinstance(record.msg, Event)
    fields = record.msg.fields
    assert fields["why"] == ["thread reading has not come round for 301 s, of 300"]
    here = fields["threads"][f"MainThread ({threading.get_ident()})"]
    assert any(test_a_thread_that_does_not_come_round_ends_the_process.__name__ in call for call in here)


def test_a_thread_without_work_is_not_awaited(clock: ManualClock) -> None:
    watch = Watch(clock, end=lambda status: pytest.fail("there was nothing to do"))
    pulse = watch.pulse("warehouse", 900)
    clock.advance(10_000 * NS_PER_S)
    assert watch.look()
    pulse.beat()
    pulse.rest()
    clock.advance(10_000 * NS_PER_S)
    assert watch.look()


def test_work_that_is_in_vain_ends_the_process(clock: ManualClock) -> None:
    ended: list[int] = []
    watch = Watch(clock, end=ended.append)
    watch.also(lambda: None)
    assert watch.look()

    def in_vain() -> None:
        raise KafkaUnavailable("owns nothing")

    watch.also(in_vain)
    assert not watch.look()
    assert ended == [EXIT_STUCK]


HANGING = """
import threading
from gpuledger.serving.watch import Watch
with Watch(every_s=0.02) as watch:
    watch.pulse("reading", 0.1).beat()
    threading.Event().wait()
"""


def test_a_process_that_hangs_is_ended_from_within() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_STUCK
    assert "no progress" in done.stderr


def test_stacks_name_each_thread() -> None:
    held = threading.Event()
    thread = threading.Thread(target=held.wait, name="one that waits")
    thread.start()
    try:
        found = stacks()[f"one that waits ({thread.ident})"]
    finally:
        held.set()
        thread.join()
    assert any(call.endswith(" wait") for call in found)


def test_a_check_that_fails_in_itself_is_told_and_ends_nothing(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[int] = []
    watch = Watch(clock, end=ended.append)

    def failing() -> None:
        raise RuntimeError("of no use")

    watch.also(failing)
    watch.pulse("reading", 300).beat()
    assert watch.look()
    assert not ended
    assert "a check failed" in caplog.text
    clock.advance(301 * NS_PER_S)
    assert not watch.look(), "what comes after it is looked at"
    assert ended == [EXIT_STUCK]


CLOSING = """
import threading
from contextlib import ExitStack
from gpuledger.serving.watch import Watch
watch = Watch(every_s=0.02)
closing = watch.pulse("closing", 0.1)
with watch, ExitStack() as stack:
    stack.callback(threading.Event().wait)
    closing.beat()
"""


def test_a_process_that_hangs_as_it_closes_is_ended_from_within() -> None:
    done = subprocess.run([sys.executable, "-c", CLOSING], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_STUCK
    assert "thread closing has not come round" in done.stderr, "and a handler without fields says why"
