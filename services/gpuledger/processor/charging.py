"""From decided windows to charge sets: the core, and what happens where it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from gpuledger.attribution import Charges, Frames, NodeWindow, Policy, charge_windows
from gpuledger.attribution.window import WindowState
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.records import (
    ChargeSet,
    EventBatch,
    Generation,
    Holdings,
    SampleBatch,
    encode,
    encode_many,
)
from gpuledger.pricing import Prices, Teams
from gpuledger.processor import metrics
from gpuledger.processor.protocol import Decision, Label, offsets, refused, usable
from gpuledger.processor.reading import Telemetry

MAX_WINDOWS_A_PASS = 400  # enough to be vectorised; a pass holds the interpreter for well under a second
Core = Callable[[Sequence[NodeWindow], Prices, Teams], list[Charges]]

_STATE_OF_LABEL: Mapping[Label, WindowState] = {
    Label.COMPLETE: "complete",
    Label.INCOMPLETE: "incomplete",
    Label.REFUSED: "refused",
    Label.UNOBSERVED: "unobserved",
    Label.ENDED: "ended",
}


def steady_core() -> Core:
    """The core for one thread that charges the same nodes again and again, from records that a Decoder made:
    what they repeat is worked out once."""
    return partial(charge_windows, frames=Frames())


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every version of prices and teams, and the generations that pin some."""

    prices: Prices
    teams: Teams
    generations: Mapping[int, Generation]
    policy: Policy | None = None
    """In place of every generation's, where it is asked what another one would have made of the past."""


@dataclass(frozen=True, slots=True)
class Charged:
    """The outcome for one window; ``error`` where the core could not charge its records."""

    decision: Decision
    record: ChargeSet
    body: bytes
    """The record as it goes to gpu.charges, without its frame."""
    error: BadRecord | None = None


def charge(
    decisions: Sequence[tuple[int, Decision]],
    bodies: Mapping[tuple[int, int], Telemetry],
    window_ns: Callable[[str], int],
    configuration: Configuration,
    core: Core = charge_windows,
) -> list[Charged]:
    """Charge decided windows, each with its partition; ``bodies`` by (partition, offset).

    A window that the core fails on, or whose charges do not fit into a record, is charged as refused;
    Refused itself (a version that is not known) is no fault of the records and is raised.
    """
    charged: list[Charged] = []
    for at in range(0, len(decisions), MAX_WINDOWS_A_PASS):
        part = decisions[at : at + MAX_WINDOWS_A_PASS]
        windows = [
            _window(partition, decision, bodies, window_ns(decision.node.cluster), configuration)
            for partition, decision in part
        ]
        charged += _pass(part, windows, configuration, core)
    for outcome in charged:
        metrics.WINDOWS_CHARGED.labels(outcome.record.state).inc()
    return charged


def _pass(
    part: Sequence[tuple[int, Decision]],
    windows: Sequence[NodeWindow],
    configuration: Configuration,
    core: Core,
) -> list[Charged]:
    prices, teams = configuration.prices, configuration.teams
    try:
        results = core(windows, prices, teams)
        bodies = encode_many([result.to_record() for result in results])
    except Refused:
        raise
    except Exception as error:
        if len(windows) > 1:
            middle = len(windows) // 2
            return [
                *_pass(part[:middle], windows[:middle], configuration, core),
                *_pass(part[middle:], windows[middle:], configuration, core),
            ]
        return [_refused(part[0][1], windows[0], configuration, core, error)]
    charged = []
    for (_, decision), window, result, body in zip(part, windows, results, bodies, strict=True):
        if result.conservation_error_nano or result.conservation_error_ns:
            metrics.CONSERVATION_ERRORS.inc()
        metrics.EVENTS_CHARGED.inc(sum(batch.time_ns.size for batch in window.events))
        charged.append(Charged(decision, result.to_record(), body))
    return charged


def _refused(
    decision: Decision, window: NodeWindow, configuration: Configuration, core: Core, error: Exception
) -> Charged:
    """The window charged without its records; where even its devices can not be, as an empty set."""
    metrics.CORE_ERRORS.inc()
    known = isinstance(error, BadRecord)
    reason = BadRecord(
        error.reason if isinstance(error, BadRecord) else "core_error",
        f"the core can not charge this window: {error if known else repr(error)}",
    )
    bare = replace(window, state="refused", holdings=(), events=(), samples=())
    for empty in (bare, replace(bare, layout=None), replace(bare, layout=None, offset_ranges=())):
        try:
            record = core([empty], configuration.prices, configuration.teams)[0].to_record()
            return Charged(decision, record, encode(record), reason)
        except Refused:
            raise
        except Exception as again:
            failed = again
    raise failed


def _window(
    partition: int,
    decision: Decision,
    bodies: Mapping[tuple[int, int], Telemetry],
    window_ns: int,
    configuration: Configuration,
) -> NodeWindow:
    start, end = decision.window_start_ns, decision.window_start_ns + window_ns
    first, last = (decision.alive[0][0], decision.alive[-1][1]) if decision.alive else (start, start)
    generation = configuration.generations.get(decision.revision.generation)
    records: list[Telemetry] = []
    if decision.label is not Label.REFUSED:
        records = [bodies[partition, record.offset] for record in usable(decision.inputs)]
    return NodeWindow(
        cluster=decision.node.cluster,
        node=decision.node.node,
        window_start_ns=start,
        window_length_ns=window_ns,
        revision=decision.revision,
        state=_STATE_OF_LABEL[decision.label],
        holdings=[record for record in records if isinstance(record, Holdings)],
        events=[record for record in records if isinstance(record, EventBatch)],
        samples=[record for record in records if isinstance(record, SampleBatch)],
        refused=len(refused(decision.inputs)),
        layout=decision.layout,
        life_start_ns=first if first > start else None,
        life_end_ns=last if last < end else None,
        partition=partition,
        offset_ranges=ranges(offsets(decision.inputs)),
        price_version=generation.price_version if generation is not None else None,
        team_version=generation.team_version if generation is not None else None,
        policy=configuration.policy or _policy(decision.node.cluster, start, generation, configuration.teams),
    )


def _policy(cluster: str, start_ns: int, generation: Generation | None, teams: Teams) -> Policy:
    """What its generation says; where that says nothing, what the window's team map says of its cluster."""
    if generation is not None and generation.policy:
        return Policy(**generation.policy)
    version = generation.team_version if generation is not None else None
    return Policy(**teams.at(start_ns, version).policy_of(cluster, start_ns))


def ranges(ascending: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending offsets as (first, count) of each unbroken run."""
    if not ascending:
        return []
    breaks = [i for i, (a, b) in enumerate(pairwise(ascending), 1) if b != a + 1]
    return [
        (ascending[first], last - first)
        for first, last in zip([0, *breaks], [*breaks, len(ascending)], strict=True)
    ]
