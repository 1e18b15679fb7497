"""When something is worth a recommendation: limits, for everybody and by team, from a YAML file."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from gpuledger.contract.errors import ConfigError
from gpuledger.documents import in_words, read_text
from gpuledger.pricing.yaml_values import Strict

MAX_FILE_BYTES = 1_000_000


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is no time zone such as Europe/Berlin") from error
    return value


class Limits(Strict):
    """What holds for a team. The defaults are careful: they name what nobody would miss."""

    active_percent: float = Field(default=5.0, gt=0, le=100)
    """Held and below this share of active time is idle."""
    idle_hours: float = Field(default=24.0, gt=0, le=24 * 90)
    """For at least so long without a break, up to the end of the evidence."""
    headroom_percent: float = Field(default=25.0, ge=0, le=400)
    """What a slice must have above the busiest hour and the most memory seen."""
    short_hours: float = Field(default=4.0, gt=0, le=24 * 30)
    """Pods whose median life is at most this may run on spot: little is lost with one."""
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    work_hours: tuple[int, int] = (7, 20)
    """From and until, local time, Monday to Friday; the rest is nights and weekends."""
    checkpointing: tuple[str, ...] = ()
    """Workloads that take up their work where they left it: ``namespace/Job/name``, with ``*``."""

    @model_validator(mode="after")
    def _order(self) -> Limits:
        begin, end = self.work_hours
        if not 0 <= begin < end <= 24:
            raise ValueError("work_hours are two hours of a day in order, such as [7, 20]")
        return self


class Settings(Limits):
    """``kind: recommendations``: limits for everybody, and under ``teams`` what differs for a team."""

    kind: Literal["recommendations"] = "recommendations"
    node_idle_hours: float = Field(default=2.0, ge=1, le=24 * 90)
    """A node that nobody held for so long is worth a recommendation."""
    spot_price_ratio: float | None = Field(default=None, gt=0, lt=1)
    """Spot over on-demand price, for GPU models of which the ledger has not seen both."""
    teams: dict[str, dict[str, object]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _teams_are_limits(self) -> Settings:
        _ = self._by_team
        return self

    @cached_property
    def _by_team(self) -> dict[str, Limits]:
        common = {name: getattr(self, name) for name in Limits.model_fields}
        return {team: Limits.model_validate(common | own) for team, own in self.teams.items()}

    def of(self, team: str) -> Limits:
        """What holds for a team."""
        return self._by_team.get(team, self)


def read_settings(path: Path | None) -> Settings:
    """The settings of a file; the defaults without one. Raises ConfigError with what is wrong and where."""
    if path is None:
        return Settings()
    try:
        plain = yaml.safe_load(read_text(path, MAX_FILE_BYTES))
    except yaml.YAMLError as error:
        raise ConfigError(f"is no YAML: {' '.join(str(error).split())}", str(path)) from error
    if not isinstance(plain, dict) or plain.get("kind") != "recommendations":
        raise ConfigError("must be a mapping with `kind: recommendations`", str(path))
    try:
        return Settings.model_validate(plain)
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, one['loc'])) or 'document'}: {in_words(one)}" for one in error.errors()
        )
        raise ConfigError("; ".join(problems), str(path)) from None
