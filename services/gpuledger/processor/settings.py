"""What a processor worker can be told, from the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gpuledger.contract.windows import DAY_NS, DEFAULT_WINDOW_NS, NS_PER_S, WindowGrid
from gpuledger.processor.protocol import Rules


class ProcessorSettings(BaseSettings):
    """Every field is an environment variable: GPULEDGER_PROCESSOR_APPLICATION and so on.

    All workers of an application share its partitions; the application is also the consumer group and the
    beginning of the transactional ids.
    """

    model_config = SettingsConfigDict(env_prefix="GPULEDGER_PROCESSOR_", frozen=True, extra="ignore")

    application: str = Field(default="gpuledger-processor", min_length=1)
    window_s: int = Field(default=DEFAULT_WINDOW_NS // NS_PER_S, ge=1)
    cluster_window_s: dict[str, int] = Field(default_factory=dict)  # where a cluster differs, by its name
    take_records: int = Field(
        default=1000, ge=1
    )  # of one poll; some MB of columnar batches, charged in one pass
    take_bytes: int = Field(default=32 << 20, ge=1)  # of one poll; a poll has one record at least
    take_within_s: float = Field(
        default=0.1, gt=0
    )  # how long a poll waits to be full; part of the row latency
    mark_interval_s: float = Field(
        default=5.0, gt=0
    )  # how often broker time is taken; adds to the 60 s of silence
    # Offsets of gpu.progress that are read at a time, from its end backwards: the first so many before a new
    # owner's first record, at up to 0.6 ms of a core each. Each node of a partition writes one in a window.
    history_step: int = Field(default=1000, ge=1)
    silence_s: float = Field(default=60.0, gt=0)  # see protocol.Rules
    oldest_days: float = Field(
        default=8.0, gt=0
    )  # see protocol.Rules; as long as gpu.telemetry keeps records, and a day
    # beyond either a window is full: see protocol.Rules; alike for all workers, or they decide differently
    window_records: int = Field(default=Rules().window_records, ge=1, lt=1 << 20)
    window_bytes: int = Field(default=Rules().window_bytes, ge=1)
    # How long a worker that is gone keeps its partitions. Heartbeats have a thread of their own, and a pass
    # of the core holds the interpreter for well under a second.
    session_timeout_s: float = Field(default=8.0, ge=6)
    patience_s: float = Field(default=600.0, gt=0)  # how long a new owner waits for Kafka or the registry
    metrics_port: int = Field(default=0, ge=0, le=65535)  # of the Prometheus exporter; 0: none
    data_directory: Path = Path("build/processor")  # Faust's own; holds nothing that must survive

    @model_validator(mode="after")
    def _windows_divide_a_minute(self) -> ProcessorSettings:
        for seconds in (self.window_s, *self.cluster_window_s.values()):
            WindowGrid(seconds * NS_PER_S)
        return self

    def grid(self, cluster: str) -> WindowGrid:
        """How a cluster cuts time."""
        return WindowGrid(self.cluster_window_s.get(cluster, self.window_s) * NS_PER_S)

    def rules(self) -> Rules:
        """The protocol's constants."""
        return Rules(
            silence_ns=int(self.silence_s * NS_PER_S),
            oldest_ns=int(self.oldest_days * DAY_NS),
            window_records=self.window_records,
            window_bytes=self.window_bytes,
        )
