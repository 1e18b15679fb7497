"""The generations of a published replay: what they pin, and claiming their numbers once."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

from gpuledger.bus import Outgoing, PartitionReader, Producer, SchemaRegistry, framed, unframed
from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import BadRecord, Refused
from gpuledger.contract.records import Generation
from gpuledger.contract.topics import GENERATIONS
from gpuledger.processor.charging import Configuration
from gpuledger.processor.protocol.generations import Generations
from gpuledger.processor.topics_read import announcements
from gpuledger.replay.request import Request

PARTITION = 0  # announcements have one order
KEY = b"generations"
PLAN = "generations.json"


def planned(
    request: Request,
    recorded: Configuration,
    price_version: int | None,
    team_version: int | None,
    announcement: Generation,
) -> tuple[Generation, ...]:
    """The generations that a replay publishes, in the words of ``announcement``.

    A generation pins one version of prices and of teams, so the range is cut where those that are recorded
    change, unless ``price_version`` and ``team_version`` stand in for them. Clusters that have generations of
    their own get their own again, behind those for all: of two that hold for a window the greater one does.
    """
    known = Generations(tuple(announcements(recorded.generations)))
    in_range = [g for g in recorded.generations.values() if _overlaps(g, request)]
    cuts = [*_cuts(request, in_range, recorded), request.to_ns]
    found: list[Generation] = []
    for clusters in _scopes(request, in_range):
        pieces: list[Generation] = []
        for start, end in pairwise(cuts):
            pinned = recorded.generations.get(known.of(next(iter(clusters), ""), start))
            of_prices = pinned.price_version if pinned is not None else None
            of_teams = pinned.team_version if pinned is not None else None
            one = replace(
                announcement,
                from_ns=start,
                to_ns=end,
                clusters=clusters,
                price_version=price_version or recorded.prices.at(start, of_prices).version,
                team_version=team_version or recorded.teams.at(start, of_teams).version,
                policy={**(pinned.policy if pinned is not None else {}), **request.policy},
            )
            if pieces and _pins(pieces[-1]) == _pins(one):
                pieces[-1] = replace(pieces[-1], to_ns=end)
            else:
                pieces.append(one)
        found += [one for one in pieces if not any(_holds_for(wide, one) for wide in found)]
    first = max(recorded.generations, default=0) + 1
    return tuple(replace(one, number=first + index) for index, one in enumerate(found))


def keep_plan(directory: Path, generations: tuple[Generation, ...]) -> None:
    """Write down what is about to be announced, so that a repetition announces the same."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / (PLAN + ".part")
    temporary.write_text(json.dumps([asdict(generation) for generation in generations]))
    temporary.replace(directory / PLAN)


def kept_plan(directory: Path) -> tuple[Generation, ...] | None:
    """What was written down; None where nothing was."""
    try:
        return tuple(Generation(**plain) for plain in json.loads((directory / PLAN).read_text()))
    except FileNotFoundError:
        return None


def claim(request: Request, clock: Clock) -> None:
    """Announce the generations of a request, unless that is done already.

    Raises Refused where somebody else announced one of their numbers: what was computed would be another.
    """
    with (
        PartitionReader(request.bus, "gpuledger-replay") as reader,
        SchemaRegistry(request.bus, clock) as registry,
        Producer(request.bus, "gpuledger-replay") as producer,
    ):
        for generation in request.generations:
            held = _first_with(generation.number, reader, registry)
            if held is None:
                value = framed(registry, generation)
                producer.produce_all([Outgoing(GENERATIONS, KEY, value, partition=PARTITION)])
                held = _first_with(generation.number, reader, registry)
            if held != generation:
                raise Refused(
                    f"generation {generation.number} was announced by {held.who if held else 'somebody'} "
                    "meanwhile: look at it, then replay again with another --state"
                )


def _first_with(number: int, reader: PartitionReader, registry: SchemaRegistry) -> Generation | None:
    """Of two with one number the first holds."""
    for message in reader.read_to_end(GENERATIONS, PARTITION):
        try:
            found = unframed(Generation, message.value, registry)
        except BadRecord:
            continue
        if found.number == number:
            return found
    return None


def _cuts(request: Request, in_range: list[Generation], recorded: Configuration) -> list[int]:
    """Where what is recorded may change, in order, from the beginning of the range on."""
    instants = {request.from_ns}
    for generation in in_range:
        instants |= {generation.from_ns, generation.to_ns}
    instants.update(recorded.prices.active_from_ns)
    instants.update(recorded.teams.active_from_ns)
    return sorted(at for at in instants if request.from_ns <= at < request.to_ns)


def _overlaps(generation: Generation, request: Request) -> bool:
    of_cluster = not (generation.clusters and request.clusters) or bool(
        request.clusters & set(generation.clusters)
    )
    return of_cluster and generation.from_ns < request.to_ns and request.from_ns < generation.to_ns


def _scopes(request: Request, in_range: list[Generation]) -> list[list[str]]:
    """The clusters that are announced together: all, or each alone where some have their own generations."""
    wanted = sorted(request.clusters)
    named = sorted({cluster for one in in_range for cluster in one.clusters})
    if not named:
        return [wanted]
    return [[cluster] for cluster in wanted] if wanted else [[], *([cluster] for cluster in named)]


def _holds_for(wide: Generation, one: Generation) -> bool:
    """Whether one that is for all clusters says the same of all the time of another."""
    inside = wide.from_ns <= one.from_ns and one.to_ns <= wide.to_ns
    return not wide.clusters and inside and _pins(wide) == _pins(one)


def _pins(generation: Generation) -> tuple[int, int, dict[str, str]]:
    return generation.price_version, generation.team_version, generation.policy
