"""Imports of prices as a person starts them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from gpuledger.configuration.prices_cli import app
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import PriceEntry
from gpuledger.pricing.yaml_documents import read_prices

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "prices"


def imported(*arguments: str | Path) -> list[PriceEntry]:
    """The entries of what is written."""
    done = CliRunner().invoke(app, ["import", *map(str, arguments)])
    if done.exception is not None:
        raise done.exception
    return read_prices(done.stdout, "p.yaml").entries


def refusal(*arguments: str | Path) -> tuple[str, str]:
    """What is said on stderr, and the error."""
    done = CliRunner().invoke(app, ["import", *map(str, arguments)])
    assert isinstance(done.exception, ConfigError | Refused), done.exception
    return done.stderr, str(done.exception)
