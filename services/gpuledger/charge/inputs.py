"""What the files of a bill hold, sorted by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuledger.charge.files import read_bytes
from gpuledger.charge.holders import Stated, read_stated
from gpuledger.charge.recorded import Telemetry, is_recorded, read_recorded
from gpuledger.charge.scrapes import Scrape, read_scrapes
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import EventBatch, Holdings, PriceBookVersion, SampleBatch, TeamMapVersion
from gpuledger.documents import read_text
from gpuledger.pricing.yaml_documents import read_prices, read_teams


@dataclass
class Inputs:
    """What the files hold, sorted by kind."""

    recorded: list[Telemetry] = field(default_factory=list)
    stated: Stated = field(default_factory=Stated)
    scrapes: list[Scrape] = field(default_factory=list)


def read_inputs(
    samples: Sequence[str], holdings: Sequence[Path], events: Sequence[Path], at: str | None
) -> Inputs:
    """Read every file and sort what is in it. Raises ConfigError with the file that is wrong."""
    inputs, scrapes, documents = Inputs(), [], []
    for argument in samples:
        path = Path(argument)
        data = read_bytes(path) if path.exists() else b""
        if is_recorded(data):
            inputs.recorded += read_recorded(data, path, SampleBatch)
        else:
            scrapes.append(argument)
    for path in holdings:
        data = read_bytes(path)
        if is_recorded(data) or b'"keyframe"' in data[: 1 << 20]:
            inputs.recorded += read_recorded(data, path, Holdings)
        else:
            documents.append((path, data))
    for path in events:
        inputs.recorded += read_recorded(read_bytes(path), path, EventBatch)
    inputs.stated = read_stated(documents)
    inputs.scrapes = read_scrapes(scrapes, at)
    if not (inputs.recorded or inputs.scrapes or not inputs.stated.empty):
        raise ConfigError("nothing to charge: give --samples, --holdings or both")
    return inputs


def price_books(path: Path | None, assumed: list[str]) -> list[PriceBookVersion]:
    """The price list of a file as a version that always holds; none without a file."""
    if path is None:
        assumed.append("no --prices: GPU time only, no money")
        return []
    book = read_prices(read_text(path), str(path))
    book.version, book.active_from_ns = 1, 0
    return [book]


def team_maps(path: Path | None) -> list[TeamMapVersion]:
    """The team rules of a file as a version that always holds; none without a file."""
    if path is None:
        return []
    teams = read_teams(read_text(path), str(path))
    teams.version, teams.active_from_ns = 1, 0
    return [teams]
