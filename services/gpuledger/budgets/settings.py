"""What a worker of the budgets application can be told, from the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class BudgetSettings(BaseSettings):
    """Every field is an environment variable: GPULEDGER_BUDGETS_APPLICATION and so on.

    All workers of an application share its partitions; the application is also the consumer group and the
    beginning of the transactional ids.
    """

    model_config = SettingsConfigDict(env_prefix="GPULEDGER_BUDGETS_", extra="ignore")

    application: str = Field(default="gpuledger-budgets", min_length=1)
    take_records: int = Field(default=2000, ge=1)  # of one poll
    take_bytes: int = Field(default=32 << 20, ge=1)
    take_within_s: float = Field(default=0.25, gt=0)  # part of a breach's latency; larger rounds cost less
    state_interval_s: float = Field(default=20.0, gt=0)  # what is counted again after a kill -9
    read_interval_s: float = Field(default=5.0, gt=0)  # of budgets and notes; a version is told 60 s ahead
    session_timeout_s: float = Field(default=8.0, ge=6)
    patience_s: float = Field(default=600.0, gt=0)  # how long a new owner waits for Kafka or the registry
    sink_group: str = "gpuledger-sink"  # whose offsets say what the warehouse has
    link: str = ""  # of breaches: {budget}, {breach}, {from_ms} and {to_ms} are filled in
    metrics_port: int = Field(default=0, ge=0, le=65535)
    data_directory: Path = Path("build/budgets")  # Faust's own; holds nothing that must survive
