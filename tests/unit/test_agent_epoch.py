"""Agent time: fixed for an epoch, over when the wall clock steps, and the second of each round."""

from gpuledger.agent.epoch import AgentTime
from gpuledger.agent.samplers.samples import Round
from gpuledger.agent.sampling import SamplerThread
from gpuledger.agent.simulated import SimulatedNode, SimulatedSampler
from gpuledger.contract.clock import ManualClock, SystemClock
from gpuledger.contract.identity import Epoch
from tests.support.agent import S
from tests.support.waiting import until


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


def test_a_round_is_taken_in_each_second_at_most_and_once_more_at_the_stop() -> None:
    clock = SystemClock()
    time = AgentTime.begin(clock, "boot")
    thread = SamplerThread(SimulatedSampler(SimulatedNode(), clock, time), clock, time)
    thread.start()
    rounds: list[Round] = []
    until(lambda: rounds.extend(thread.take()) or len(rounds) >= 2)
    thread.stop()
    left = thread.take()
    assert left, "the last one"
    rounds += left
    seconds = [r.through_ns // S for r in rounds[:-1]]
    assert seconds == sorted(set(seconds))
    ends = [r.through_ns for r in rounds]
    starts = [min(s.start_ns for s in r.samples) for r in rounds]
    assert starts[1:] == ends[:-1], "no instant between two rounds is left out"


class LateClock(ManualClock):
    """Each reading of the boot clock is the next of these; the last stays."""

    def __init__(self, *boot_ns: int) -> None:
        super().__init__(0, boot_ns[0])
        self._readings = list(boot_ns)

    def boot_ns(self) -> int:
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


class OneRound:
    """A sampler that asks no clock."""

    def sample(self) -> Round:
        return Round(0)

    def rebase(self, time: AgentTime) -> None: ...

    def close(self) -> None: ...


def test_a_round_that_is_woken_most_of_a_second_late_is_taken_all_the_same() -> None:
    clock = LateClock(99 * S // 100, 17 * S // 10)
    thread = SamplerThread(OneRound(), clock, AgentTime(Epoch("boot", 0), 0))
    thread.start()
    until(lambda: bool(thread.take()))
    thread.stop()
