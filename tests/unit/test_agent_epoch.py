"""Agent time: fixed for an epoch, and over when the wall clock was stepped."""

from gpuledger.agent.epoch import AgentTime
from gpuledger.contract.clock import ManualClock
from tests.support.agent import S


def test_agent_time_goes_with_the_boot_clock_whatever_the_wall_clock_does() -> None:
    clock = ManualClock(unix_ns=1_000 * S, boot_ns=50 * S)
    time = AgentTime.begin(clock, "boot")
    assert time.epoch == ("boot", 50 * S)
    clock.advance(3 * S)
    clock.step(-S // 2)
    assert time.now_ns(clock) == 1_003 * S
    assert time.unix_ns(40 * S) == 990 * S


def test_an_epoch_outlives_an_error_of_a_second_and_not_more() -> None:
    clock = ManualClock(unix_ns=1_000 * S, boot_ns=50 * S)
    time = AgentTime.begin(clock, "boot")
    clock.step(S)
    assert (time.error_ns(clock), time.is_over(clock)) == (S, False)
    clock.step(1)
    assert time.is_over(clock)
    clock.step(-2 * S - 2)
    assert time.is_over(clock)
