"""How soon a breach is told after the window in which its line was crossed; what is kept, and how soon again.

    python -m benchmarks.budgets

1,250 nodes of eight GPUs and 1,000 budgets. First the pure core alone, in processor seconds: sets counted
through both stages; its baseline asks every budget about every row. Then one worker on a real Kafka: windows
of 10 s in real time, their sets written over the second after each has ended, and budgets that are used up
exactly with the last set of a window, so that no breach may be early. The time runs from the end of that
window to the broker's timestamp of the message; the baseline is the same time for the window's last charge,
which nothing that reads it can beat. The worker's processor time is taken from /proc over the windows. At
last the worker is killed with charges waiting and another started: from the kill to the first subtotal of the
new one. All of it goes into build/figures/budgets.json.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._budget_fleet import (
    BUDGETS,
    GPUS,
    NODES,
    ROWS,
    WINDOW_NS,
    WINDOWS,
    budgets,
    charge_set,
    crossed_in,
)
from benchmarks.figures import repeat, write_figure
from gpuledger.budgets import Catalog, Lives, PartitionCount, Sums, conditions, lines_of
from gpuledger.budgets.columns import subtotal_of
from gpuledger.budgets.counters import Changed
from gpuledger.budgets.lines import WindowCharges, charges_of
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.states import newest, states_of
from gpuledger.bus import (
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    SchemaRegistry,
    apply_topics,
    framed,
    register_all,
)
from gpuledger.contract import topics
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.records import Breach, BudgetState, BudgetsVersion, ChargeSet, decode, encode
from gpuledger.contract.windows import NS_PER_S
from gpuledger.contract.wire import unframe
from gpuledger.localstack import Kafka, Registry
from tests.support.budget_workers import SESSION_S, BudgetWorkers

STACK_DIRECTORY = Path("build/stack")
PARTITIONS = 24
ARRIVE_S = 1.0  # after a window's end: processors close it within moments of each other
ARRIVALS = 10  # bunches in that time
BASELINE_SETS = 50
CORE_SETS = 1_000
RUNS = 5
START_NS = 90 * NS_PER_S  # until the windows are made
READY = "breaches taken over"  # what the worker logs last of its beginning
PATIENCE_S = 300.0
NS_PER_MS = 1_000_000


# the core alone


def core_figure() -> None:
    """Sets through both stages, against every budget asked about every row."""
    start_ns = 1_700_000_000 * NS_PER_S // WINDOW_NS * WINDOW_NS
    every = budgets(start_ns)
    catalog = Catalog([BudgetsVersion(version=1, active_from_ns=0, budgets=every)])
    sets = [decode(ChargeSet, encode(charge_set(node, start_ns))) for node in range(CORE_SETS)]

    def both_stages() -> None:
        count, sums, lives = PartitionCount(0, catalog), Sums(), Lives()
        for bunch in range(0, len(sets), 250):
            taken = [charges_of(one, bunch + n, 1) for n, one in enumerate(sets[bunch : bunch + 250])]
            count_all(count, taken)
            told, count.changed = subtotal_of(count, count.changed), Changed()
            sums.absorb(told)
            lives.changes(conditions(catalog, sums), sums, complete=True)

    def every_row_and_budget() -> None:
        spent = [0] * len(every)
        for one in sets[:BASELINE_SETS]:
            for payer, amounts in lines_of(one):
                says = payer._asdict()
                for number, budget in enumerate(every):
                    if all(says.get(name) == value for name, value in budget.scope.items()):
                        spent[number] += amounts[4] + amounts[5]

    ours = repeat(both_stages, RUNS, clock=time.process_time).rate(len(sets))
    base = repeat(every_row_and_budget, RUNS, clock=time.process_time).rate(BASELINE_SETS)
    count = PartitionCount(0, catalog)
    count_all(count, [charges_of(one, number, 1) for number, one in enumerate(sets)])
    write_figure(
        "budgets_core",
        ours.median,
        "sets/s",
        base.median,
        ours.median / base.median,
        ours.n,
        spread=ours.spread,
        baseline_name="every budget asked about every row",
        baseline_spread=base.spread,
        budgets=BUDGETS,
        rows_per_set=ROWS,
        sets_a_second_of_the_fleet=NODES * NS_PER_S / WINDOW_NS,
        state_bytes_of_a_partition=sum(len(encode(state)) for state in states_of(count, 0)),
    )


def count_all(count: PartitionCount, taken: Sequence[WindowCharges]) -> None:
    """Count sets of which none replaces another."""
    if count.to_ask(taken):
        raise SystemExit("a set replaces another")
    count.count(taken, {})


# on Kafka


@dataclass
class Stack:
    """A broker with all topics, and the windows that are to be charged."""

    bus: BusSettings
    registry: SchemaRegistry
    producer: Producer
    workers: BudgetWorkers

    def sets(self, window_start_ns: int) -> list[Outgoing]:
        """All sets of a window as their bytes in Kafka."""
        return [
            Outgoing(topics.CHARGES, NodeKey(one.cluster, one.node).key, framed(self.registry, one))
            for one in (charge_set(node, window_start_ns) for node in range(NODES))
        ]

    def charge(self, window_start_ns: int, records: Sequence[Outgoing]) -> None:
        """Write the sets of a window over ARRIVE_S after its end."""
        size = -(-len(records) // ARRIVALS)
        for number in range(ARRIVALS):
            at_ns = window_start_ns + WINDOW_NS + int(number * ARRIVE_S * NS_PER_S / ARRIVALS)
            while time.time_ns() < at_ns:
                time.sleep(0.005)
            self.producer.produce_all(records[number * size : (number + 1) * size])

    def read(self, topic: str) -> Iterator[tuple[int, bytes]]:
        """Append time in ms and body of each record of a topic."""
        with PartitionReader(self.bus, "bench") as reader:
            for partition in range(reader.partitions(topic)):
                for record in reader.read_to_end(topic, partition):
                    yield record.timestamp_ms, bytes(unframe(record.value or b"")[1])


def latencies_ms(stack: Stack, first_ns: int) -> list[int]:
    """From the end of the window in which its line was crossed to each message."""
    told = [(ms, decode(Breach, body)) for ms, body in stack.read(topics.BREACHES)]
    return sorted(
        ms - (first_ns + crossed_in(int(breach.budget_id.rpartition("-")[2])) * WINDOW_NS) // NS_PER_MS
        for ms, breach in told
        if breach.change == 1
    )


def charge_latencies_ms(stack: Stack) -> list[int]:
    """From the end of each window to its last charge."""
    last: dict[int, int] = {}
    for ms, body in stack.read(topics.CHARGES):
        end_ms = (decode(ChargeSet, body).window_start_ns + WINDOW_NS) // NS_PER_MS
        last[end_ms] = max(last.get(end_ms, 0), ms)
    return sorted(ms - end for end, ms in last.items())


def at(values: Sequence[int], share: float) -> float:
    """The value below which that share of sorted values lies."""
    return float(values[min(len(values) - 1, int(share * len(values)))])


def recovery_s(stack: Stack, killed: Any, again_ns: int) -> float:
    """From a kill to the first subtotal of another worker; charges of a window wait for it."""
    records = stack.sets(again_ns)
    with PartitionReader(stack.bus, "bench") as reader:
        before = reader.bounds(topics.BUDGET_SUBTOTALS, 0)[1]
    killed.kill()
    killed_ms = time.time_ns() // NS_PER_MS
    killed.wait(10)
    stack.workers.start()
    stack.charge(again_ns, records)
    deadline = time.monotonic() + PATIENCE_S
    with PartitionReader(stack.bus, "bench") as reader:
        while not (found := [r.timestamp_ms for r in reader.read_to_end(topics.BUDGET_SUBTOTALS, 0, before)]):
            if time.monotonic() > deadline:
                raise SystemExit("the second worker told nothing")
            time.sleep(0.2)
    return (min(found) - killed_ms) / 1000


def processor_s(pid: int) -> float:
    """Processor seconds of a process so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """The greatest resident set of a process so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


def live_figures() -> None:
    """Latency, state and recovery on a real Kafka."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Kafka(Path(folder) / "kafka", STACK_DIRECTORY) as kafka,
        Registry(Path(folder) / "registry", STACK_DIRECTORY) as registry_server,
    ):
        bus = BusSettings(kafka_bootstrap=kafka.bootstrap, registry_url=registry_server.url)
        with SchemaRegistry(bus) as registry, Producer(bus, "bench") as producer:
            register_all(registry)
            apply_topics(bus, partitions=PARTITIONS, replication=1)
            workers = BudgetWorkers(bus, Path(folder), BudgetSettings().state_interval_s)
            stack = Stack(bus, registry, producer, workers)
            document = BudgetsVersion(version=1, active_from_ns=0, budgets=budgets(time.time_ns()))
            value = framed(registry, document)
            producer.produce_all([Outgoing(topics.BUDGETS, b"budgets", value, partition=0)])
            try:
                measure(stack, Path(folder) / "budgets0.log")
            finally:
                workers.end()


def measure(stack: Stack, log: Path) -> None:
    """Windows in real time, then a kill."""
    worker = stack.workers.start()
    stack.workers.await_that(lambda: READY in log.read_text(), PATIENCE_S, "a worker that has its partitions")
    first_ns = (time.time_ns() + START_NS) // WINDOW_NS * WINDOW_NS
    starts_ns = [first_ns + number * WINDOW_NS for number in range(WINDOWS)]
    windows = [stack.sets(start_ns) for start_ns in starts_ns]
    if time.time_ns() > first_ns:
        raise SystemExit("this machine is too slow to make the windows in time")
    before_s = processor_s(worker.pid)
    for start_ns, records in zip(starts_ns, windows, strict=True):
        stack.charge(start_ns, records)
    stack.workers.await_that(lambda: breaches(stack) >= BUDGETS, PATIENCE_S, "every breach")
    spent_s = (processor_s(worker.pid) - before_s) / WINDOWS
    memory = resident_bytes(worker.pid)
    took, base = latencies_ms(stack, first_ns), charge_latencies_ms(stack)
    states = [decode(BudgetState, body) for _, body in stack.read(topics.BUDGET_STATE)]
    kept = sum(len(encode(state)) for parts in newest(states).values() for state in parts)
    again_s = recovery_s(stack, worker, first_ns + WINDOWS * WINDOW_NS)
    session_s = float(SESSION_S)
    write_figure(
        "budgets",
        at(took, 0.99) / 1000,
        "s",
        at(base, 0.99) / 1000,
        at(took, 0.99) / at(base, 0.99),
        len(took),
        spread=(at(took, 0.0) / 1000, at(took, 1.0) / 1000),
        baseline_name="the window's last charge in Kafka",
        p50_s=at(took, 0.5) / 1000,
        p99_s=at(took, 0.99) / 1000,
        processor_s_per_window=spent_s,
        nodes=NODES,
        gpus=NODES * GPUS,
        budgets=BUDGETS,
        partitions=PARTITIONS,
        state_bytes=kept,
        resident_bytes=memory,
        recovery_s=again_s,
        session_s=session_s,
        recovery_of_session_ratio=again_s / session_s,
    )


def breaches(stack: Stack) -> int:
    """How many messages there are; asked often, so that none is decoded."""
    return sum(1 for _ in stack.read(topics.BREACHES))


def main() -> None:
    core_figure()
    live_figures()


if __name__ == "__main__":
    main()
