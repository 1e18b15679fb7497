"""The log, the topics, time, and the faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from gpuledger.contract.identity import NodeKey
from gpuledger.processor.protocol import (
    Announcement,
    Batch,
    Decision,
    Lifetime,
    LogRecord,
    NodeProgress,
    PartitionOwner,
    Skipped,
    WindowTask,
)
from tests.support.protocol_world.agent import Agent, Shared
from tests.support.protocol_world.mixture import Faults, Switches
from tests.support.protocol_world.owner import Worker
from tests.support.protocol_world.scale import (
    HORIZON,
    HOUR_NS,
    NODES,
    SILENCE,
    WINDOW,
    WINDOW_NS,
    WINDOWS,
    ns,
)


class World:
    """Two nodes on one partition: the life of the first is stated by gpu.nodes, of the second by nobody."""

    def __init__(self, seed: int, switches: Switches | None = None, faults: Faults | None = None) -> None:
        self.switches = switches or Switches()
        self.faults = faults or Faults()
        self.seed = seed
        self.random = Random(seed)
        self.now = 0
        self.records: list[LogRecord] = []
        self.committed = 0
        self.progress: list[NodeProgress] = []
        self.lives: list[tuple[NodeKey, Lifetime]] = [(NODES[0], Lifetime(ns(self.faults.launched)))]
        self.generations: list[Announcement] = []
        self.dead_letters: set[int] = set()
        self.heads: dict[tuple[NodeKey, int], Decision] = {}
        self.contents: dict[tuple[NodeKey, int, int], set[tuple[object, ...]]] = defaultdict(set)
        self.first_charged: dict[tuple[NodeKey, int], int] = {}
        self.skipped: list[Skipped] = []
        self.trace: list[str] = []
        self.mid_windows: set[tuple[NodeKey, int, int]] = set()
        self.workers: list[Worker] = []
        self._numbers = 0
        self._spawned = 0
        self._mended: set[int] = set()
        shared = Shared(
            self.random,
            self._number,
            self.faults.unreadable,
            self.faults.largest,
            self.mid_windows,
            self.faults.layouts,
        )
        self.agents = [Agent(node, shared) for node in NODES]
        for agent in self.agents:
            agent.start(0)
            agent.tick(0)

    # what workers do to the world

    def log(self, line: str) -> None:
        """One line of the trace."""
        self.trace.append(f"t{self.now:02d} {line}")

    def union(self, task: WindowTask) -> list[LogRecord]:
        """All records of the window, decoded: the held ones, and those between lowest and highest."""
        wanted = set(task.held)
        if task.fetch is not None:
            low, high = task.fetch
            wanted.update(range(low, high + 1))
        return [
            record
            for record in (self.records[offset] for offset in sorted(wanted))
            if record.identity.node_key == task.node and record.window_start_ns == task.window_start_ns
        ]

    def charge(self, who: str, decision: Decision) -> None:
        """A record of gpu.charges arrives."""
        key = (decision.node, decision.window_start_ns // WINDOW_NS)
        self.log(f"{who} charges {key[0].node} w{key[1]} {decision.label.name} {tuple(decision.revision)}")
        content = (
            decision.label, decision.alive, decision.layout,
            tuple((r.identity, r.mend, r.offset) for r in decision.inputs),
        )  # fmt: skip
        self.contents[(*key, decision.revision.packed)].add(content)
        self.first_charged.setdefault(key, self.now)
        head = self.heads.get(key)
        if head is None or decision.revision.packed >= head.revision.packed:
            self.heads[key] = decision

    def write_progress(self, who: str, owner: PartitionOwner, batch: Batch) -> None:
        """A transaction on gpu.progress; what is not on the wire is lost."""
        touched = {(key, start // HOUR_NS) for key, start in batch.rows}
        for key, hour in sorted(touched):
            node = owner.nodes[key]
            closed = {start: row for (other, start), row in batch.rows.items() if other == key}
            through = max([*closed, *([] if node.through is None else [node.through])])
            wire = {
                start: row
                for start, row in {**dict(node.rows.items()), **closed}.items()
                if start // HOUR_NS == hour
            }
            self.progress.append(NodeProgress(key, wire, through, node.last_append_ns, node.opened_from))
        self.log(f"{who} writes progress of {len(batch.rows)} windows")

    # the course of the world

    def run(self, steps: int = 240) -> World:
        """Live through random faults, then heal."""
        self.spawn()
        for _ in range(steps):
            x = self.random.random()
            if x < 0.10:
                self.advance()
            elif x < 0.36:
                agent = self.random.choice(self.agents)
                self.send(agent)
                if self.random.random() < 0.7:
                    agent.confirm()
            elif x < 0.90:
                if self.workers:
                    latest = self.random.random() < 0.7
                    self.step(self.workers[-1] if latest else self.random.choice(self.workers))
                elif self.random.random() < 0.3:
                    self.spawn()
            else:
                self.fault()
        self.heal()
        return self

    def spawn(self) -> None:
        """The partition is assigned to a new worker."""
        for worker in self.workers:
            worker.expelled = True
        self._spawned += 1
        self.workers.append(Worker(self, f"P{self._spawned}"))
        self.log(f"P{self._spawned} assigned")

    def step(self, worker: Worker) -> None:
        """Let a worker go on to its next point of interruption."""
        next(worker.steps, None)

    def advance(self) -> None:
        """A second passes."""
        self.now += 1
        for agent in self.agents:
            agent.tick(self.now)

    def send(self, agent: Agent) -> None:
        """An agent hands its next record to the broker."""
        record = agent.next_to_send()
        if record is not None:
            self.append(record)

    def append(self, record: LogRecord) -> None:
        """The broker appends a record."""
        record = record._replace(offset=len(self.records), append_ns=ns(self.now))
        self.records.append(record)
        flags = "".join(
            letter
            for letter, on in (
                ("K", record.keyframe), ("L", record.last), ("G", record.goodbye),
                ("A", record.amendment), ("!", not record.readable), ("m", record.mend > 0),
            )
            if on
        )  # fmt: skip
        window = record.window_start_ns // WINDOW_NS
        self.log(f"  @{record.offset} <- {record.identity.node} w{window} part{record.part} {flags} "
                 f"ep{record.identity.epoch_ns} seq{record.identity.sequence}")  # fmt: skip

    def fault(self, agents: Sequence[Agent] | None = None) -> None:
        """Something happens, to one of ``agents`` if to any."""
        # a cycle of imports otherwise: the faults speak of the world
        from tests.support.protocol_world.faults import ON_AGENT, ON_WORLD

        names = list(self.faults.weights)
        name = self.random.choices(names, weights=[self.faults.weights[n] for n in names])[0]
        agent = self.random.choice(agents or self.agents)
        if name in ON_WORLD:
            ON_WORLD[name](self)
        else:
            ON_AGENT[name](self, agent)

    def life_of(self, node: NodeKey) -> Lifetime | None:
        """The life of a node as gpu.nodes states it at last."""
        return next((life for key, life in reversed(self.lives) if key == node), None)

    def tell_end(self) -> None:
        """gpu.nodes tells that a node has ended, of those whose life it states."""
        for agent in self.agents:
            life = self.life_of(agent.node)
            if life is not None and life.ended_ns is None and agent.died_at is not None:
                ended_ns = max(ns(agent.died_at), life.launched_ns or 0)
                self.lives.append((agent.node, life._replace(ended_ns=ended_ns, told_ns=ns(self.now))))
                self.log(f"gpu.nodes: {agent.node.node} ended at {ended_ns}")
                return

    def state_life(self) -> None:
        """gpu.nodes states the life of the second node, after its records had been charged without it."""
        if self.life_of(NODES[1]) is None and self.agents[1].died_at is None:
            launched_ns = ns(self.random.randint(0, min(self.now, WINDOWS * WINDOW)))
            self.lives.append((NODES[1], Lifetime(launched_ns)))
            self.log(f"gpu.nodes: {NODES[1].node} launched at {launched_ns}")

    def announce(self) -> None:
        """A generation for a random range."""
        if len(self.generations) < 2:
            first = self.random.randint(0, WINDOWS - 1)
            end = self.random.randint(first, WINDOWS + 1) + 1
            number = len(self.generations) + 1
            self.generations.append(Announcement(number, first * WINDOW_NS, end * WINDOW_NS))
            self.log(f"generation {number} for w{first}..w{end - 1}")

    def mend(self) -> None:
        """Someone mends the oldest dead letter and sends it again."""
        identities = {self.records[offset].identity for offset in self._mended}
        for offset in sorted(self.dead_letters - self._mended):
            self._mended.add(offset)
            record = self.records[offset]
            if record.readable or record.identity in identities:
                continue
            self.append(record._replace(readable=True, mend=1))
            return

    def heal(self) -> None:
        """Everything works again, until nothing happens any more."""
        self.log("---- heal")
        quiet = 0
        for agent in self.agents:
            agent.online = True
        for worker in self.workers[:-1]:
            if self.random.random() < 0.5:
                self.workers.remove(worker)
        for i in range(4000):
            if not self.workers or self.workers[-1].expelled:
                self.spawn()
            for agent in self.agents:
                for _ in range(3):
                    self.send(agent)
                while agent.sent:
                    agent.confirm()
            before = len(self.trace)
            for worker in list(self.workers):
                for _ in range(8):
                    if worker in self.workers:
                        self.step(worker)
            if i % 4 == 0:
                self.mend()
            if i % 2 == 0:
                self.advance()
            if self.now >= WINDOWS * WINDOW + 2:
                self.tell_end()
            if self.now >= WINDOWS * WINDOW + 6:
                for agent in self.agents:
                    agent.dead = True
                    agent.end(self.now)
            quiet = quiet + 1 if len(self.trace) == before else 0
            if self.now > HORIZON * WINDOW + 2 * SILENCE and quiet > 40:
                return
        self.log("never quiet")

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers
