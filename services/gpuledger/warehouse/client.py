"""The one place that talks to ClickHouse: URLs, connections, and its errors as ours.

URLs: ``clickhouse://user:password@host:port/database`` (HTTP), ``clickhouses://`` (HTTPS), ``http://`` and
``https://`` alike, for the embedded server and for a real one. The password may also come from the
environment (GPULEDGER_WAREHOUSE_PASSWORD) or a file (GPULEDGER_WAREHOUSE_PASSWORD_FILE).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import (
    ClickHouseError,
    DataError,
    InternalError,
    NotSupportedError,
    ProgrammingError,
)

from gpuledger.contract.errors import ConfigError, WarehouseError, WarehouseUnavailable

DEFAULT_DATABASE = "gpuledger"
DEFAULT_URL = f"clickhouse://127.0.0.1:8123/{DEFAULT_DATABASE}"
CONNECT_TIMEOUT_S = 5  # a server in the same region answers in milliseconds
SEND_RECEIVE_TIMEOUT_S = 300  # the longest insert or report; ClickHouse's own client default
_NO_CONNECTION = re.compile(r"Caused by \w+\(.*?\): (Failed to [^\"]+)\"\)")  # in urllib3's words
_PORTS = {"clickhouse": 8123, "http": 8123, "clickhouses": 8443, "https": 8443}

# Worth a retry: the server is overloaded, out of space, losing its keeper, read-only for now, or stopping.
# Everything else is about the statement or the data and would fail again.
# Codes: ClickHouse, src/Common/ErrorCodes.cpp.
RETRYABLE_CODES = frozenset(
    {
        3,  # UNEXPECTED_END_OF_FILE
        76,  # CANNOT_OPEN_FILE
        159,  # TIMEOUT_EXCEEDED
        173,  # CANNOT_ALLOCATE_MEMORY
        201,  # QUOTA_EXCEEDED
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        319,  # UNKNOWN_STATUS_OF_INSERT
        341,  # UNFINISHED
        373,  # SESSION_IS_LOCKED
        394,  # QUERY_WAS_CANCELLED
        415,  # ALL_REPLICAS_LOST
        439,  # CANNOT_SCHEDULE_TASK
        745,  # SERVER_OVERLOADED
        999,  # KEEPER_EXCEPTION
    }
)
# The driver warns of every failed request; ours is the error that the caller gets.
logging.getLogger("clickhouse_connect").setLevel(logging.ERROR)

_INSERT_SETTINGS: dict[str, int | str] = {
    "async_insert": 0,  # the answer must mean that the rows are in
    "optimize_on_insert": 0,  # duplicates collapse at merges and in reads; at inserts it costs a third
    "max_partitions_per_insert_block": 1_000,  # a replay of months must not fail at 100 days in one batch
}


@dataclass(frozen=True)
class WarehouseUrl:
    """A parsed URL; ``password`` never appears in ``repr``."""

    host: str
    port: int
    secure: bool = False
    user: str = "default"
    password: str = field(default="", repr=False)
    database: str = DEFAULT_DATABASE

    def __str__(self) -> str:
        return f"clickhouse{'s' if self.secure else ''}://{self.host}:{self.port}/{self.database}"


def parse_url(url: str, environment: Mapping[str, str] | None = None) -> WarehouseUrl:
    """Parse a warehouse URL. Raises ConfigError with what is wrong."""
    environment = os.environ if environment is None else environment
    try:
        parts = urlsplit(url)
    except ValueError as error:  # without the URL: it may hold a password
        raise ConfigError(f"the warehouse URL makes no sense: {error}") from None
    if parts.scheme not in _PORTS:
        raise ConfigError(
            f"a warehouse URL begins with clickhouse://, http:// or https://, not {parts.scheme!r}"
        )
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise ConfigError(f"the port of the warehouse URL is no number: {error}") from error
    if not parts.hostname:
        raise ConfigError("the warehouse URL names no host")
    return WarehouseUrl(
        host=parts.hostname,
        port=port,
        secure=parts.scheme in ("clickhouses", "https"),
        user=unquote(parts.username or "default"),
        password=unquote(parts.password) if parts.password else _secret(environment),
        database=unquote(parts.path.strip("/")) or DEFAULT_DATABASE,
    )


def _secret(environment: Mapping[str, str]) -> str:
    if path := environment.get("GPULEDGER_WAREHOUSE_PASSWORD_FILE"):
        try:
            return Path(path).read_text("utf-8").strip()
        except OSError as error:
            raise ConfigError(f"cannot read the password file: {error.strerror}", path) from error
    return environment.get("GPULEDGER_WAREHOUSE_PASSWORD", "")


class Warehouse:
    """A connection to ClickHouse whose errors are ours.

    Every method raises WarehouseUnavailable when the same call may succeed later and WarehouseError (with
    ClickHouse's code) when it will not. Owned by one thread; ``close`` gives its sockets back.
    """

    def __init__(self, client: Client, url: WarehouseUrl) -> None:
        self._client = client
        self.url = url

    @property
    def client(self) -> Client:
        """The driver's own client, for what is not wrapped here."""
        return self._client

    def command(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run a statement that returns nothing or one value."""
        with translated(self.url):
            return self._client.command(statement, parameters=dict(parameters or {}))

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """The rows of a query as Python values."""
        with translated(self.url):
            return self._client.query(query, parameters=dict(parameters or {})).result_rows

    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """The rows of a query as an Arrow table."""
        with translated(self.url):
            table: pa.Table = self._client.query_arrow(
                query, parameters=dict(parameters or {}), use_strings=True
            )
            return table

    def raw(
        self, query: str, default_format: str, settings: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> bytes:
        """The answer untouched, in ``default_format`` unless the query names another; any statement."""
        with translated(self.url):
            answer: bytes = self._client.raw_query(
                query,
                parameters=dict(parameters),
                settings=dict(settings),
                transport_settings={"X-ClickHouse-Format": default_format},
            )
            return answer

    def insert_arrow(self, table: str, rows: pa.Table, token: str = "") -> int:
        """Insert ``rows``; ``token`` makes a repeated insert of the same rows a no-op while it is remembered.

        Without a token ClickHouse compares the rows. Returns the number of rows sent.
        """
        settings = dict(_INSERT_SETTINGS)
        if token:
            settings["insert_deduplication_token"] = token
        # As a stream: the file format, which the driver would send, is read whole before its first row.
        body = _arrow_stream(rows, compress=bool(self._client.write_compression))
        with translated(self.url):
            self._client.raw_insert(table, rows.column_names, body, settings, "ArrowStream")
        return int(rows.num_rows)

    def close(self) -> None:
        """Close the sockets."""
        self._client.close()


def connect(url: str | WarehouseUrl, create_database: bool = False) -> Warehouse:
    """Connect and check that the server answers.

    ``create_database`` makes the database of the URL first. Raises WarehouseUnavailable, WarehouseError or
    ConfigError.
    """
    target = parse_url(url) if isinstance(url, str) else url
    with translated(target):
        if create_database:
            plain = _client(target, None)
            try:
                plain.command(f"CREATE DATABASE IF NOT EXISTS `{target.database}`")
            finally:
                plain.close()
        return Warehouse(_client(target, target.database), target)


def _client(target: WarehouseUrl, database: str | None) -> Client:
    return clickhouse_connect.get_client(
        interface="https" if target.secure else "http",
        host=target.host,
        port=target.port,
        username=target.user,
        password=target.password,
        database=database or "__default__",
        connect_timeout=CONNECT_TIMEOUT_S,
        send_receive_timeout=SEND_RECEIVE_TIMEOUT_S,
        autogenerate_session_id=False,  # no state between statements, and none to lock
        query_limit=0,
        compress="lz4" if target.host not in ("127.0.0.1", "localhost", "::1") else False,
        client_name="gpuledger",
        dedicated_pool=True,
    )


def _arrow_stream(rows: pa.Table, compress: bool) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compress else None)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()


@contextmanager
def translated(url: WarehouseUrl) -> Iterator[None]:
    """Turn the driver's errors inside the block into ours."""
    try:
        yield
    except ClickHouseError as error:
        raise _ours(error, url) from error


def _ours(error: Exception, url: WarehouseUrl) -> WarehouseError | WarehouseUnavailable:
    code = getattr(error, "code", None)
    if not isinstance(code, int) or code <= 0:
        if isinstance(error, ProgrammingError | DataError | InternalError | NotSupportedError):
            return WarehouseError(_first_line(error), 0)  # the driver refused it itself
        return WarehouseUnavailable(f"ClickHouse at {url} does not answer: {_first_line(error)}")
    if code in RETRYABLE_CODES:
        return WarehouseUnavailable(f"ClickHouse at {url} can not do it now: {_first_line(error)}")
    return WarehouseError(_first_line(error), code)


def _first_line(error: Exception) -> str:
    text = str(error)
    marker = text.find("Code: ")
    refused = _NO_CONNECTION.search(text) if marker < 0 else None
    if refused:
        return refused[1]  # the driver wraps it into three sentences that say the address again
    return (text[marker:] if marker >= 0 else text).split("\n")[0].split(" (for url ")[0].strip()
