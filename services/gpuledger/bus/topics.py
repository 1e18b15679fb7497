"""Every topic with its settings and why; and what would have to change for a cluster to have them.

Sources: DESIGN.md and PROTOCOL.md, "One node, one log". Pure: admin.py talks to the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from gpuledger.contract import topics as names
from gpuledger.contract.avro.limits import MAX_RECORD_BYTES as MAX_BODY_BYTES
from gpuledger.contract.errors import Refused

_SECOND_MS = 1_000
_HOUR_MS = 3_600 * _SECOND_MS
_DAY_MS = 24 * _HOUR_MS

DEFAULT_PARTITIONS = 24  # fixed for good at the first apply: room for 24 workers
DEFAULT_REPLICATION = 3
LONGEST_SPOOL_AGE_MS = 3 * _DAY_MS  # an agent keeps what it could not send for so long
# a spool that arrives last thing must still be there when its windows are restated
TELEMETRY_RETENTION_MIN_MS = LONGEST_SPOOL_AGE_MS + _DAY_MS
FOR_EVER = -1
FRAME_BYTES = 5  # magic byte and schema id
_ENVELOPE_BYTES = 64 * 1024  # key, headers and the batch header around one record
MAX_RECORD_BYTES = MAX_BODY_BYTES + _ENVELOPE_BYTES
MAX_BATCH_BYTES = MAX_RECORD_BYTES + _ENVELOPE_BYTES  # a broker's limit is on the batch

Kind = Literal["node", "single"]

NODE_KEYED = (names.TELEMETRY, names.NODES, names.PROGRESS)
"""Topics with one number of partitions, so that a node lies in the same partition of each."""
CONTIGUOUS = frozenset({names.TELEMETRY, names.CHARGES, names.BUDGET_SUBTOTALS})
"""Topics that Faust reads: every offset must be there, so no compaction and no transactions."""
COMPACTED = frozenset({names.PROGRESS, names.BUDGET_STATE})
"""Topics of which the newest record of each key counts, and no other."""
KEPT_FOR_EVER = frozenset({names.NODES, names.PRICES, names.TEAMS, names.BUDGETS, names.GENERATIONS})
"""Topics that are read from their beginning, whole: nothing of them may ever go."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be. `kind`: keyed by node over all partitions, or one partition (total order)."""

    name: str
    kind: Kind
    why: str
    config: Mapping[str, str]
    partitions: int = 1
    replication: int = DEFAULT_REPLICATION
    forced: frozenset[str] = field(default=frozenset())  # settings that the administrator named himself


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as a cluster has it; `config` holds every effective setting."""

    partitions: int
    replication: int
    config: Mapping[str, str]


class Change(NamedTuple):
    """One thing to do: create the topic (`setting` ""), or set one setting."""

    topic: str
    setting: str
    before: str
    after: str


def _spec(name: str, kind: Kind, why: str, retention_ms: int, segment_ms: int, **more: str) -> TopicSpec:
    config = {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": "-1",  # by age alone: a busy day must not delete a quiet one
        "segment.ms": str(segment_ms),
        # by arrival: a spool an hour old is not deleted on arrival, and the time index has no holes
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MAX_BATCH_BYTES),
        "compression.type": "producer",
        "unclean.leader.election.enable": "false",  # an acknowledged record is never lost to a fast election
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return TopicSpec(name, kind, why, config)


SPECS: tuple[TopicSpec, ...] = (
    _spec(
        names.TELEMETRY,
        "node",
        "one log a node; kept for the longest spool and a day, with as much again for a slow restatement",
        7 * _DAY_MS,
        _HOUR_MS,
        segment_bytes=str(256 << 20),
    ),
    _spec(
        names.NODES,
        "node",
        "lifetimes decide what is owed, for ever; a few records a node",
        FOR_EVER,
        7 * _DAY_MS,
    ),
    _spec(
        names.PROGRESS,
        "node",
        "one row a node and hour, the newest counts",
        FOR_EVER,
        _HOUR_MS,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.1",  # a new owner reads it whole, beside its first records: kept short
        max_compaction_lag_ms=str(_DAY_MS),
        delete_retention_ms=str(_DAY_MS),
    ),
    _spec(
        names.CHARGES,
        "node",
        "sets of charges; a sink may be away for a month",
        30 * _DAY_MS,
        6 * _HOUR_MS,
        segment_bytes=str(256 << 20),
    ),
    _spec(names.PRICES, "single", "whole numbered documents, append-only", FOR_EVER, 30 * _DAY_MS),
    _spec(names.TEAMS, "single", "whole numbered documents, append-only", FOR_EVER, 30 * _DAY_MS),
    _spec(names.BUDGETS, "single", "whole numbered documents, append-only", FOR_EVER, 30 * _DAY_MS),
    _spec(names.PERIODS, "single", "whole numbered versions, append-only", FOR_EVER, 30 * _DAY_MS),
    _spec(names.GENERATIONS, "single", "announcements in one order, append-only", FOR_EVER, 30 * _DAY_MS),
    _spec(names.BREACHES, "single", "few, and in the order in which they happened", 90 * _DAY_MS, _DAY_MS),
    _spec(
        names.BUDGET_SUBTOTALS,
        "single",
        "sums of sums, for the one owner of breaches; what is older than the state is in the state",
        7 * _DAY_MS,
        _HOUR_MS,
        segment_bytes=str(64 << 20),
    ),
    _spec(
        names.BUDGET_STATE,
        "node",
        "what each partition of gpu.charges has counted; the newest of each part counts",
        FOR_EVER,
        _HOUR_MS,
        cleanup_policy="compact",
        segment_bytes=str(32 << 20),  # a new owner reads it whole: keep what is not compacted short
        min_cleanable_dirty_ratio="0.1",
        max_compaction_lag_ms=str(_DAY_MS),
        delete_retention_ms=str(_DAY_MS),
    ),
    _spec(names.BREACH_NOTES, "single", "what people said; as long as breaches", 90 * _DAY_MS, _DAY_MS),
    _spec(
        names.DEAD_LETTERS,
        "node",
        "a refused record may wait a quarter of a year to be mended",
        90 * _DAY_MS,
        _DAY_MS,
    ),
)


def wanted(
    partitions: int | None = None,
    replication: int | None = None,
    overrides: Mapping[tuple[str, str], str] | None = None,
    current: Mapping[str, TopicState] | None = None,
) -> tuple[TopicSpec, ...]:
    """The specs for a cluster; what is None is taken from `current`, else from the defaults.

    `overrides` maps (topic, setting) to a value. Raises Refused for an override that breaks a rule.
    """
    state = (current or {}).get(names.TELEMETRY)
    partitions = partitions or (state.partitions if state else DEFAULT_PARTITIONS)
    copies = replication or (state.replication if state else DEFAULT_REPLICATION)
    changed: dict[str, dict[str, str]] = {}
    for (topic, setting), value in (overrides or {}).items():
        if topic not in names.RECORDS_OF_TOPIC:
            raise Refused(f"there is no topic {topic}: {', '.join(names.RECORDS_OF_TOPIC)}")
        changed.setdefault(topic, {})[setting] = value
    specs = tuple(
        replace(
            spec,
            partitions=partitions if spec.kind == "node" else 1,
            replication=copies,
            config={
                **spec.config,
                # one broker may be down while acknowledged records are still on two
                "min.insync.replicas": str(max(1, copies - 1)),
                **changed.get(spec.name, {}),
            },
            forced=frozenset(changed.get(spec.name, {})),
        )
        for spec in SPECS
    )
    check_rules(specs)
    return specs


def check_rules(specs: Iterable[TopicSpec]) -> None:
    """Raise Refused, naming all of them, where specs break a rule that exactness rests on."""
    broken = [f"{spec.name}: {problem}" for spec in specs for problem in _problems(spec)]
    counts = {spec.name: spec.partitions for spec in specs if spec.name in NODE_KEYED}
    if len(set(counts.values())) > 1:
        broken.append(f"{', '.join(NODE_KEYED)} need one number of partitions, not {counts}")
    if broken:
        raise Refused("; ".join(broken))


def _problems(spec: TopicSpec) -> Iterable[str]:
    config = spec.config
    compacted = "compact" in config["cleanup.policy"]
    if compacted and spec.name in CONTIGUOUS:
        yield "compaction would leave holes in the offsets, and Faust acknowledges past a hole"
    elif compacted and spec.name not in COMPACTED:
        yield "compaction would remove records that still count"
    if spec.name == names.PROGRESS and config["cleanup.policy"] != "compact":
        yield "must be compacted and nothing else: deleted progress is a window charged from the wrong inputs"
    if spec.name == names.BUDGET_STATE and config["cleanup.policy"] != "compact":
        yield "must be compacted and nothing else: a budget whose state is deleted is counted from its middle"
    if config["message.timestamp.type"] != "LogAppendTime":
        yield "message.timestamp.type must be LogAppendTime: a spool would be deleted on arrival"
    retention = _integer(config["retention.ms"])
    if retention is None:
        yield f"retention.ms is no number: {config['retention.ms']!r}"
    elif spec.name in KEPT_FOR_EVER and retention != FOR_EVER:
        yield "retention.ms must be -1: it is read from its beginning"
    elif spec.name == names.TELEMETRY and retention != FOR_EVER and retention < TELEMETRY_RETENTION_MIN_MS:
        yield f"retention.ms must be at least {TELEMETRY_RETENTION_MIN_MS}: the longest spool and a day"
    if config["retention.bytes"] != str(FOR_EVER) and (
        spec.name in KEPT_FOR_EVER or spec.name == names.TELEMETRY
    ):
        yield "retention.bytes must be -1: a busy day would delete what is still needed"
    largest = _integer(config["max.message.bytes"])
    if largest is None or largest < MAX_BATCH_BYTES:
        yield f"max.message.bytes must be at least {MAX_BATCH_BYTES}: the contract's largest record"
    if spec.partitions < 1 or spec.replication < 1:
        yield "needs at least one partition and one replica"


def plan(specs: Sequence[TopicSpec], current: Mapping[str, TopicState]) -> list[Change]:
    """What to do for `current` to have `specs`, in their order; empty where it has them.

    Raises Refused where a topic has another number of partitions (keys would move, and with them the order
    of a node's records) or of replicas. A retention that was raised by hand stays, unless it was forced:
    lowering one deletes records.
    """
    refused = []
    changes: list[Change] = []
    for spec in specs:
        state = current.get(spec.name)
        if state is None:
            size = f"{spec.partitions} partitions, {spec.replication} replicas"
            changes.append(Change(spec.name, "", "", size))
            continue
        if state.partitions != spec.partitions:
            refused.append(
                f"{spec.name} has {state.partitions} partitions, not {spec.partitions}: keys would move to "
                "other partitions and lose the order of their records; make a new cluster and replay"
            )
        if state.replication != spec.replication:
            refused.append(
                f"{spec.name} has {state.replication} replicas, not {spec.replication}: "
                "kafka-reassign-partitions.sh changes that"
            )
        for setting, value in sorted(spec.config.items()):
            before = state.config.get(setting, "")
            if before != value and not _kept_longer(setting, before, spec):
                changes.append(Change(spec.name, setting, before, value))
    if refused:
        raise Refused("; ".join(refused))
    return changes


def _kept_longer(setting: str, before: str, spec: TopicSpec) -> bool:
    """Whether an administrator's longer retention stands against a shorter one that nobody asked for."""
    if setting != "retention.ms" or setting in spec.forced:
        return False
    was, will = _integer(before), _integer(spec.config[setting])
    return was is not None and will is not None and will != FOR_EVER and (was == FOR_EVER or was > will)


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
