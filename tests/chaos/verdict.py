"""After the faults: let everything come to rest, then hold the ledger against the truth."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.bus import PartitionReader, committed_offsets
from gpuledger.contract import topics
from gpuledger.contract.errors import GpuledgerError
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.money import nano_from_decimal
from gpuledger.contract.records import ChargeSet
from gpuledger.deadletters.book import source_of
from gpuledger.deadletters.notes import is_note
from tests.chaos import budgets, happened, months, rows, truth
from tests.chaos.replayed import replayed
from tests.chaos.settings import APPLICATION, CLUSTER, SINK_GROUP
from tests.chaos.world import World

DEVICES = 3  # of a simulated node
REST_S = 300.0  # for the broker to come back, the spools to drain, members to be given up, windows to close
JUDGED_S = 120.0
AHEAD_OF_TIME = "ahead_of_time"


@dataclass
class Verdict:
    """What was found."""

    wrong: list[str] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    """What came about of the faults, how often."""

    def check(self, held: bool, what: str) -> None:
        """Note what does not hold."""
        if not held:
            self.wrong.append(what)


def behind(world: World, group: str, topic: str) -> int | None:
    """How many records of a topic a group has not acknowledged; None while nobody answers."""
    try:
        with PartitionReader(world.bus, "chaos-verdict") as reader:
            partitions = range(reader.partitions(topic))
            ends = [reader.bounds(topic, partition)[1] for partition in partitions]
        done = committed_offsets(world.bus, "chaos-verdict", group, topic, partitions)
    except GpuledgerError:
        return None
    return sum(end - (done[partition] or 0) for partition, end in enumerate(ends))


def end_nodes(world: World, verdict: Verdict) -> None:
    """Every node but the last ends properly; the last one vanishes without a word. What was begun is done."""
    world.wait_servers()
    world.call_again()
    *proper, vanishing = world.nodes
    world.kill(vanishing)
    world.end_nodes(proper)
    for ended in world.ended:
        if "node" in ended.name:
            verdict.wrong.append(f"an agent ended by itself: {ended}")
    verdict.wrong += world.finish_changes()


def rest(world: World, verdict: Verdict) -> None:
    """Wait until both groups have acknowledged all there is."""
    for group, topic in ((APPLICATION, topics.TELEMETRY), (SINK_GROUP, topics.CHARGES)):
        done = world.wait_until(lambda g=group, t=topic: behind(world, g, t) == 0, REST_S)  # type: ignore[misc]
        verdict.check(
            done, f"{group} is stuck: {behind(world, group, topic)} records of {topic} not finished"
        )
    vanished = NodeKey(CLUSTER, world.nodes[-1])
    verdict.check(
        world.wait_until(lambda: world.tail.follow() and world.tail.is_swept(vanished), REST_S),
        "the vanished node's windows stay open",
    )
    verdict.check(
        world.wait_until(lambda: world.tail.follow() and not world.tail.behind_generations(), REST_S),
        f"{world.tail.behind_generations()} windows are not restated",
    )
    # what they are is judged later; here it is waited for a worker that still reads what lies back
    world.wait_until(lambda: world.tail.follow() and not world.tail.behind_lives(DEVICES), REST_S)
    closed_ns = max((version.active_from_ns for version in world.closed), default=0)
    world.wait_until(lambda: time.time_ns() > closed_ns, REST_S)
    world.still()
    done = world.wait_until(lambda: behind(world, SINK_GROUP, topics.CHARGES) == 0, REST_S)
    verdict.check(done, "the sink is stuck")
    for topic in (topics.CHARGES, topics.BUDGET_SUBTOTALS) if world.counters else ():
        done = world.wait_until(lambda t=topic: behind(world, budgets.APPLICATION, t) == 0, REST_S)  # type: ignore[misc]
        verdict.check(
            done,
            f"budgets are stuck: {behind(world, budgets.APPLICATION, topic)} records of {topic} not finished",
        )


def judge(world: World, verdict: Verdict) -> None:
    """All that must hold of a stack at rest."""
    log = truth.Log(world.bus)
    wanted, ledger = log.expected(), log.ledger
    double = [key for key, contents in ledger.contents.items() if len(contents) > 1]
    verdict.check(not double, f"two contents at one revision: {double[:5]}")
    _check_letters(log, verdict)
    missing = sorted(wanted.keys() - ledger.sets.keys())
    verdict.check(not missing, f"{len(missing)} windows were never charged: {missing[:5]}")
    beyond = {place: ledger.sets[place] for place in ledger.sets.keys() - wanted.keys()}
    charged = [(place, one.state) for place, one in beyond.items() if len(one.device)]
    verdict.check(not charged, f"charged outside the node's life: {charged[:5]}")
    unended = [place for place in beyond.keys() - log.spoken_of if beyond[place].state != "ended"]
    verdict.check(not unended, f"not said to be ended: {unended[:5]}")
    for place in sorted(wanted.keys() & ledger.sets.keys()):
        got, right = ledger.sets[place], wanted[place]
        if found := truth.differences(got, right):
            verdict.wrong.append(f"{place}: {got.state}, not {right.state}; columns {found}")
    _check_rows(world, wanted, verdict)
    hourly, summed = (_sorted(rows.ask(world.warehouse.port, query)) for query in rows.HOURS)
    verdict.check(hourly == summed, "charges_hourly is not what charges sum up to")
    _check_totals(world, log, verdict)
    _check_months(world, log, verdict)
    _check_replay(world, log, verdict)
    if world.counters:
        _check_breaches(world, log, verdict)
    verdict.happened += happened.came(log.arrived, ledger, world.nodes, world.spooled)
    states = Counter(charges.state for charges in wanted.values())
    verdict.facts |= {
        "records": len(log.arrived),
        "windows": dict(states),
        "charge sets": sum(1 for _ in ledger.contents),
        "ended by themselves": Counter(ended.name for ended in world.ended),
    }


def _check_rows(world: World, wanted: Mapping[truth.Place, ChargeSet], verdict: Verdict) -> None:
    """Row by row; heads of a generation wait for each other a moment longer."""
    right = rows.of_sets(wanted.values())
    found: list[str] = []

    def agree() -> bool:
        found[:] = rows.differences(rows.of_warehouse(world.warehouse.port), right)
        return not found

    world.wait_until(agree, JUDGED_S)
    verdict.check(not found, "the warehouse differs: " + "; ".join(found))


def _check_totals(world: World, log: truth.Log, verdict: Verdict) -> None:
    query = "SELECT node, toString(sum(total)) AS total, sum(total_ns) AS ns FROM charges GROUP BY node"
    totals = {row["node"]: row for row in rows.ask(world.warehouse.port, query)}
    for name in world.nodes:
        node = NodeKey(CLUSTER, name)
        life = log.lives.get(node)
        if life is None or name not in totals:
            verdict.wrong.append(f"{name} is not in the ledger: {life}")
            continue
        ended_ns = life.ended_ns
        if ended_ns is None:
            verdict.check(name == world.nodes[-1], f"{name} has no end in gpu.nodes")
            ended_ns = max(start for key, start in log.ledger.sets if key == node) + truth.WINDOW_NS
        spans = log.owed(node, ended_ns)
        owed = DEVICES * sum(world.line.owed(*span) for span in spans)
        charged = nano_from_decimal(totals[name]["total"])
        verdict.check(charged == owed, f"{name}: {charged} nano charged, {owed} owed")
        lived = DEVICES * sum(last - first for first, last in spans)
        verdict.check(int(totals[name]["ns"]) == lived, f"{name}: {totals[name]['ns']} ns, lived {lived}")


def _check_replay(world: World, log: truth.Log, verdict: Verdict) -> None:
    """A replay of these nodes' lives is what was charged; as far as the one that vanished is charged."""
    keys = [NodeKey(CLUSTER, name) for name in world.nodes]
    launched = [log.lives[key].launched_ns for key in keys if key in log.lives]
    charged = [start for key, start in log.ledger.sets if key == keys[-1]]
    if not launched or not charged:
        verdict.wrong.append("there is nothing to replay")
        return
    from_ns, to_ns = min(launched) // truth.WINDOW_NS * truth.WINDOW_NS, max(charged) + truth.WINDOW_NS
    state = world.directory / f"replay-{world.nodes[0]}"
    compared, wrong = replayed(world.environment, state, from_ns, to_ns)
    verdict.facts["windows replayed"] = compared
    verdict.wrong += wrong


def _check_letters(log: truth.Log, verdict: Verdict) -> None:
    """Each record that nobody can read was told of and mended, each of no window told of; nothing else."""
    refusals = [letter for letter in log.letters if not is_note(letter)]
    ahead = {seen.place for seen in log.ahead}
    lying = {seen.place for seen in log.unreadable} | ahead
    strange = [(x.stage, x.reason, x.detail) for x in refusals if source_of(x) not in lying]
    verdict.check(not strange, f"dead letters: {strange[:5]}")
    unnamed = ahead - {source_of(letter) for letter in refusals if letter.reason == AHEAD_OF_TIME}
    verdict.check(not unnamed, f"of no window, and not told of: {unnamed}")
    places = {source_of(letter) for letter in refusals}
    told = {seen.headers.id for seen in log.unreadable if seen.place in places}
    untold = {seen.headers.id for seen in log.unreadable} - told
    verdict.check(not untold, f"refused and not told of: {untold}")
    verdict.check(log.mended() >= told, f"not mended: {told - log.mended()}")
    verdict.facts["refused and mended"] = len(told)


def _check_months(world: World, log: truth.Log, verdict: Verdict) -> None:
    """What was booked stays, and the months sum to the recomputation."""
    found = months.booked(world.warehouse.port)
    verdict.wrong += months.wrong(found, world.closed, log.ledger.told)
    now = found.of(version.closed_through for version in world.closed)
    earlier = {place: amounts for place, amounts in now.items() if place[1] in world.booked_months}
    verdict.wrong += months.changed(world.booked, earlier)
    world.booked, world.booked_months = dict(now), {version.closed_through for version in world.closed}
    bookings, hourly = (_sorted(rows.ask(world.warehouse.port, query)) for query in months.SUMS)
    verdict.check(bookings == hourly, "the months do not sum to charges_hourly")
    verdict.facts["generations"] = len(log.generations)
    verdict.facts["sets behind the close of their month"] = months.corrected(world.closed, log.ledger.told)


def _check_breaches(world: World, log: truth.Log, verdict: Verdict) -> None:
    """Breaches are those of the final ledger, each told once; the last round of judging may be under way."""
    wanted = budgets.crossed(log.ledger.sets.values())
    world.wait_until(lambda: budgets.firing(budgets.told(world.bus)) == wanted, JUDGED_S)
    told = budgets.told(world.bus)
    verdict.wrong += budgets.wrong(told, wanted)
    verdict.facts["breaches"] = dict(Counter(breach.state for breach in told))


def _sorted(found: list[rows.Row]) -> list[str]:
    return sorted(str(row) for row in found)
