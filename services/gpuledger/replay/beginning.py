"""Where the replay of a partition begins, and what is known of its nodes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpuledger.bus import Incoming
from gpuledger.bus.log import Log, Schemas
from gpuledger.contract.errors import Refused
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.identity import NodeKey
from gpuledger.contract.topics import TELEMETRY
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.processor.progress import TOLD_CLUSTER
from gpuledger.processor.protocol import Lifetime, NodeProgress
from gpuledger.processor.reading import NS_PER_MS, Decoder
from gpuledger.processor.topics_read import TopicsReader
from gpuledger.replay.configurations import Unheard
from gpuledger.replay.lookback import earlier_statements
from gpuledger.replay.request import Request

# The last windows before the range arrive in its first moments; what comes later than this is seldom.
LOOK_BEHIND_NS = 2 * MINUTE_NS


@dataclass(frozen=True, slots=True)
class Beginning:
    """``first`` is the first offset to read. Of each node ``progress`` has the nearest window before the
    range that speaks, as far as the log says so before the offset ``looked_to``."""

    first: int
    looked_to: int
    progress: Sequence[NodeProgress]
    _speaks: dict[NodeKey, int] = field(default_factory=dict)

    def is_news(self, message: Incoming, headers: RecordHeaders) -> bool:
        """Whether a record of a window before the range says what was not known: then begin again, with the
        whole log looked through."""
        speaks = headers.keyframe or headers.goodbye
        nearer = headers.window_start_ns > self._speaks.get(headers.id.node_key, -1)
        return speaks and nearer and message.offset >= self.looked_to


def beginning(
    request: Request,
    partition: int,
    log: Log,
    schemas: Schemas,
    decoder: Decoder,
    headers_of: Callable[[Incoming], RecordHeaders],
    lifetimes: Sequence[tuple[NodeKey, Lifetime]],
    *,
    whole: bool,
) -> Beginning:
    """``whole``: look through the log to its end for windows before the range. Raises Refused where the log
    does not reach back far enough."""
    rules, from_ns = request.settings.rules(), request.from_ns
    first, end = offsets_to_read(request, partition, log, schemas)
    looked_to = end if whole else max(first, log.offset_at(TELEMETRY, partition, from_ns + LOOK_BEHIND_NS))
    alive = {key for key, life in lifetimes if (life.ended_ns or request.to_ns) > from_ns}
    earlier = earlier_statements(
        log, decoder, headers_of, partition, from_ns, looked_to, alive, rules.unstated_life_ns
    )
    progress = []
    for key in {*(key for key, _ in lifetimes), *earlier}:
        rows = dict([earlier[key]]) if key in earlier else {}
        through_ns = from_ns - request.settings.grid(key.cluster).length_ns
        progress.append(NodeProgress(key, rows, through_ns, opened_from_ns=from_ns))
    return Beginning(first, looked_to, progress, {key: start for key, (start, _) in earlier.items()})


def offsets_to_read(request: Request, partition: int, log: Log, schemas: Schemas) -> tuple[int, int]:
    """The offsets [first, end) that may hold records of the range. Raises Refused, see ``beginning``."""
    low, end = log.bounds(TELEMETRY, partition)
    since_ns = request.from_ns - request.settings.rules().ahead_ns
    first = max(low, min(log.offset_at(TELEMETRY, partition, since_ns), end))
    if first == low > 0 and not (low == end and _is_deserted(log, schemas, partition, since_ns)):
        check_kept(log, TELEMETRY, partition, since_ns, "replay from an archive, or a later time")
    return first, end


def _is_deserted(log: Log, schemas: Schemas, partition: int, since_ns: int) -> bool:
    """Whether all that retention took of an empty partition had come before: gpu.progress says when each of
    its nodes was heard last."""
    written = TopicsReader(log, schemas, Unheard()).progress(partition)
    heard = [record.last_append_ns for record in written if record.cluster != TOLD_CLUSTER]
    return bool(heard) and max(heard) < since_ns


def check_kept(log: Log, topic: str, partition: int, since_ns: int, otherwise: str) -> None:
    """What follows from a part of its records must not pass for the whole. Raises Refused where retention
    took what was appended since."""
    low, _ = log.bounds(topic, partition)
    for message in log.read_range(topic, partition, low, low):
        if message.timestamp_ms * NS_PER_MS <= since_ns:
            return
    raise Refused(
        f"{topic}/{partition} does not reach back to the beginning of the range any more: {otherwise}"
    )
