"""Every error of gpuledger, in one tree.

GpuledgerError
├── UserError            a mistake of the person at the keyboard; exit code 2, no traceback
│   ├── ConfigError      a document or setting is invalid; says file, line and what to do
│   │   └── NoTopic      a topic was never created
│   └── Refused          the request would break a rule of the system
├── BadSchema            an Avro schema can not be compiled: a mistake in the project, not in the data
├── BadRecord            bytes or meaning of a record are wrong; goes to dead letters, never crashes
├── Unavailable          an I/O error: a service is away; worth a retry
│   ├── KafkaUnavailable
│   │   └── ProducerBroken   this producer is of no more use; make another, send again in order
│   ├── RegistryUnavailable
│   ├── WarehouseUnavailable
│   └── StoreUnavailable     where the archive lies
├── Fenced               another owner took over; stop at once
├── WarehouseError       the warehouse refused a statement; carries ClickHouse's code
└── Unsupported          this machine can not do it (no eBPF, no NVML); says what is missing
"""

from __future__ import annotations


class GpuledgerError(Exception):
    """Root of all errors that gpuledger raises on purpose."""


class UserError(GpuledgerError):
    """A mistake of the person who called; shown without a traceback, exit code 2."""


class ConfigError(UserError):
    """An invalid document or setting.

    ``where`` is a file with its line where there is one (``prices.yaml:12``).
    """

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class NoTopic(ConfigError):
    """A topic, or a partition of it, is not there."""


class Refused(UserError):
    """The request is understood and would break a rule of the system."""


class BadSchema(GpuledgerError):
    """An Avro schema, or an annotation in it, does not make sense."""


class BadRecord(GpuledgerError):
    """A record can not be read or understood.

    ``reason`` is a short stable code (``truncated``, ``over_limit``, ...), ``field`` the dotted name of
    the field, ``position`` the byte in the record body where it was noticed.
    """

    def __init__(self, reason: str, message: str, field: str = "", position: int | None = None) -> None:
        at = f" at byte {position}" if position is not None else ""
        name = f"{field}: " if field else ""
        super().__init__(f"{name}{message}{at} [{reason}]")
        self.reason = reason
        self.field = field
        self.position = position


class Unavailable(GpuledgerError):
    """Something outside does not answer; the same call may succeed later. ``look_at``: what a person looks at
    then."""

    look_at = ""


class KafkaUnavailable(Unavailable):
    """No broker answers, or it refuses the connection."""

    look_at = "is Kafka running, and where GPULEDGER_KAFKA_BOOTSTRAP says?"


class ProducerBroken(KafkaUnavailable):
    """A record was given up, so this producer sends nothing more: make another and send again in order."""


class RegistryUnavailable(Unavailable):
    """The schema registry does not answer."""

    look_at = "is the schema registry running, and where GPULEDGER_REGISTRY_URL says?"


class WarehouseUnavailable(Unavailable):
    """ClickHouse does not answer, or answers that it is overloaded or read-only."""

    look_at = "is ClickHouse running, and where --url or GPULEDGER_WAREHOUSE_URL says?"


class StoreUnavailable(Unavailable):
    """The directory or object store of the archive does not answer, or refuses."""


class TargetAway(Unavailable):
    """A target of notices does not answer or does not let us in; ``wait_s`` is the pause it asked for."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class TargetRefused(GpuledgerError):
    """A target of notices understood the notice and will never take it."""


class Fenced(GpuledgerError):
    """A newer owner holds the transactional id; whatever this one still writes is refused."""


class WarehouseError(GpuledgerError):
    """ClickHouse refused a statement; ``code`` is ClickHouse's own error code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Unsupported(GpuledgerError):
    """This machine can not do what was asked; the message says what is missing."""


EXIT_FAILED = 1  # the work was understood and did not succeed
EXIT_USER = 2  # a mistake in the call or in a document; as typer itself exits
EXIT_UNAVAILABLE = 3  # a service does not answer; worth a retry


def exit_status(error: GpuledgerError | OSError) -> int:
    """The exit code of a command that ends with this error."""
    match error:
        case (
            UserError() | FileNotFoundError() | PermissionError() | IsADirectoryError() | NotADirectoryError()
        ):
            return EXIT_USER  # a file that was named and can not be used
        case Unavailable():
            return EXIT_UNAVAILABLE
        case _:
            return EXIT_FAILED


def in_a_line(error: GpuledgerError | OSError) -> str:
    """What a person is told of an error, without a traceback."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or repr(error)
    if isinstance(error, Unavailable) and error.look_at:
        return f"{error}; {error.look_at}"
    return str(error)
