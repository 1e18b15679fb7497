"""From the options of a call to a request: instants, documents, policies. Raises ConfigError, Refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import Generation, PriceBookVersion, TeamMapVersion
from gpuledger.contract.windows import MINUTE_NS
from gpuledger.documents import read_text
from gpuledger.pricing.yaml_documents import read_prices, read_teams
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.processor.topics_read import TopicsReader
from gpuledger.replay.announcing import kept_plan, planned
from gpuledger.replay.configurations import Unheard
from gpuledger.replay.request import Request, Source


def instant(text: str, option: str) -> int:
    """Unix ns of an instant that begins a minute: windows never straddle one."""
    try:
        found = instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), option) from None
    if found % MINUTE_NS:
        raise ConfigError(f"{text} is within a minute; give the beginning of one", option)
    return found


def check_range(from_ns: int, to_ns: int, now_ns: int, silence_ns: int) -> None:
    """Raise ConfigError where there is nothing to replay, or some of it is not over yet."""
    if from_ns >= to_ns:
        raise ConfigError("the range is empty: --to is not behind --from", "--to")
    if to_ns > now_ns - silence_ns:
        raise ConfigError("some of the range is not over yet: windows of silent nodes come late", "--to")


def prices_of(path: Path | None) -> PriceBookVersion | None:
    """The price list of a file."""
    return None if path is None else read_prices(read_text(path), str(path))


def teams_of(path: Path | None) -> TeamMapVersion | None:
    """The team rules of a file."""
    return None if path is None else read_teams(read_text(path), str(path))


def state_directory(given: Path | None, request: Request, modes: Sequence[str]) -> Path:
    """Where a replay keeps what it has computed: the same for the same request."""
    if given is not None:
        return given
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "gpuledger" / "replay" / "".join([request.fingerprint[:16], *modes])


def generations_of(
    request: Request, directory: Path, who: str, why: str, clock: Clock
) -> tuple[Generation, ...]:
    """What a published replay announces; what it announced already where it goes on.

    Raises Refused for documents that are not published: a generation pins versions by their numbers.
    """
    kept = kept_plan(directory)
    if kept is not None:
        return kept
    with Source(request) as source:
        topics = TopicsReader(source.log, source.schemas, Unheard())
        recorded = topics.configuration()
    price_version = _number("prices", request.prices, topics.price_versions)
    team_version = _number("teams", request.teams, topics.team_versions)
    causes = [
        cause
        for cause, given in (("price", request.prices), ("team", request.teams), ("policy", request.policy))
        if given
    ]
    announcement = Generation(
        0, clock.unix_ns(), 0, 0, 0, 0, cause=causes[0] if len(causes) == 1 else "replay", who=who, why=why
    )
    return planned(request, recorded, price_version, team_version, announcement)


def _number(
    kind: str,
    wanted: PriceBookVersion | TeamMapVersion | None,
    versions: Sequence[PriceBookVersion | TeamMapVersion],
) -> int | None:
    """The number that a document was published under; None where none is asked for."""
    if wanted is None:
        return None
    numbers = [one.version for one in versions if one.document_sha256 == wanted.document_sha256]
    if not numbers:
        raise Refused(f"these {kind} are not published: `gpuledger config apply` them first")
    return max(numbers)
