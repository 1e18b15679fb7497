"""chDB as a server's engine: one data path, many connections, settings and sessions of each request.

A chDB connection is ClickHouse's session: USE, SET and temporary tables live in it. A request without a
session id gets a fresh one (about 1 ms); a session id keeps one between requests. Connections run side by
side; chDB releases the interpreter lock while it works.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chdb

from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.warehouse.embedded.access import write_config
from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode
from gpuledger.warehouse.embedded.policy import check
from gpuledger.warehouse.embedded.statement import Statement

DATABASE = "gpuledger"
SESSION_TIMEOUT_S = 60  # ClickHouse's default_session_timeout
LEAST_FREE_BYTES = 4 << 20  # the engine reserves 1 MiB for a part; an insert may make a few at once
MAX_SESSIONS = 1_000  # each holds a connection of some 100 kB
_connect: Callable[[str], Any] = chdb.connect  # typed or not, as the two wheels that carry chdb are installed
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # of a setting, or of a parameter of the query


@dataclass(frozen=True)
class Request:
    """One statement with what the request says beside it; ``session_id`` empty when it has none.

    ``pieces`` are the rows of an INSERT that come by themselves, not in the statement; iterated once.
    """

    statement: Statement
    database: str = ""
    format: str = "TabSeparated"
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    session_id: str = ""
    session_timeout_s: int = SESSION_TIMEOUT_S
    session_check: bool = False
    pieces: Iterable[bytes] | None = None


@dataclass(frozen=True)
class Outcome:
    """The bytes of the result, with the counts of X-ClickHouse-Summary."""

    body: bytes
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0


@dataclass
class _Session:
    connection: Any
    expires_ns: int
    busy: bool = False


class Engine:
    """Owns the data path until ``close``; every method may be called from any thread."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        """Open or create the database under ``path``.

        Raises ConfigError when another process serves the same path, or it can not be written.
        """
        self._clock = clock or SystemClock()
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_file = _take(path)
        except OSError as error:
            raise ConfigError(f"cannot hold the data: {error.strerror}", str(path)) from error
        config = write_config(path / "config")
        self._path = path
        self._url = f"{path / 'data'}?config-file={config}"
        self._guard = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        self._keep_alive = _connect(self._url)  # the engine lives as long as one connection does
        self._keep_alive.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self.version = str(
            self._keep_alive.query("SELECT version()", "TabSeparatedRaw").bytes(), "ascii"
        ).strip()

    def close(self) -> None:
        """Close every connection and give the data path back."""
        with self._guard:
            for session in self._sessions.values():
                session.connection.close()
            self._sessions.clear()
            self._keep_alive.close()
        os.close(self._lock_file)

    def run(self, request: Request) -> Outcome:
        """Run one statement to its end. Raises EngineError with ClickHouse's code."""
        check(request.statement)
        for what, names in (("setting", request.settings), ("parameter", request.parameters)):
            for name in names:
                if not _NAME.fullmatch(name):  # it becomes part of a statement
                    raise EngineError(ErrorCode.BAD_ARGUMENTS, f"Invalid {what} name {name!r}")
        try:
            with self._connection(request) as connection, _settings(connection, request):
                return _run(connection, request, self._need_room)
        except RuntimeError as error:
            raise EngineError.from_engine(str(error)) from error
        except chdb.ChdbError as error:
            raise EngineError.from_engine(str(error)) from error
        except UnicodeError as error:  # of chDB, whose message quotes the bytes of a statement
            raise EngineError(ErrorCode.SYNTAX_ERROR, "Syntax error: the statement is not UTF-8") from error

    def _need_room(self, size_bytes: int) -> None:
        """Raise NOT_ENOUGH_SPACE unless the disk has room for an insert of so many bytes.

        chDB's streaming insert says that rows are written where the engine had no room for them, and they are
        not; whoever is refused for rows that are written after all may repeat them, as ever.
        """
        disk = os.statvfs(self._path)
        free, wanted = disk.f_bavail * disk.f_frsize, LEAST_FREE_BYTES + 2 * size_bytes
        if free < wanted:
            raise EngineError(
                ErrorCode.NOT_ENOUGH_SPACE,
                f"Cannot reserve {wanted} bytes, {free} are free: not enough space",
            )

    @contextmanager
    def _connection(self, request: Request) -> Iterator[Any]:
        if not request.session_id:
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()
            return
        session = self._take_session(request)
        try:
            yield session.connection
        finally:
            with self._guard:
                session.busy = False
                session.expires_ns = self._clock.boot_ns() + request.session_timeout_s * NS_PER_S

    def _connect(self) -> Any:
        connection = _connect(self._url)
        connection.query(f"USE {DATABASE}")
        return connection

    def _take_session(self, request: Request) -> _Session:
        with self._guard:
            self._drop_expired()
            session = self._sessions.get(request.session_id)
            if session is None:
                if request.session_check:
                    raise EngineError(ErrorCode.SESSION_NOT_FOUND, "Session not found.")
                if len(self._sessions) >= MAX_SESSIONS:
                    raise EngineError(
                        ErrorCode.TOO_MANY_SIMULTANEOUS_QUERIES, f"More than {MAX_SESSIONS} sessions"
                    )
                session = self._sessions[request.session_id] = _Session(self._connect(), 0)
            if session.busy:
                raise EngineError(ErrorCode.SESSION_IS_LOCKED, "Session is locked by a concurrent client.")
            session.busy = True
            return session

    def _drop_expired(self) -> None:
        now_ns = self._clock.boot_ns()
        for session_id, session in list(self._sessions.items()):
            if not session.busy and session.expires_ns <= now_ns:
                session.connection.close()
                del self._sessions[session_id]


def _take(path: Path) -> int:
    """Lock the data path for this process; the kernel gives it back however the process ends."""
    handle = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ConfigError(
            "another process serves this data path; stop it or choose another", str(path)
        ) from None
    return handle


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def _settings(connection: Any, request: Request) -> Iterator[None]:
    """Apply database and settings of this request; in a session, put back what was there before."""
    before = _current(connection, request) if request.session_id and request.settings else {}
    database_before = ""
    if request.database and request.database != "default":
        if request.session_id:
            database_before = (
                connection.query("SELECT currentDatabase()", "TabSeparatedRaw").bytes().decode().strip()
            )
        connection.query("USE `" + request.database.replace("\\", "\\\\").replace("`", "\\`") + "`")
    try:
        if request.settings:
            connection.query(
                "SET " + ", ".join(f"{name} = {_quote(value)}" for name, value in request.settings.items())
            )
        yield
    finally:
        if before:
            connection.query("SET " + ", ".join(f"{name} = {value}" for name, value in before.items()))
        if database_before and request.statement.kind != "USE":
            connection.query(f"USE `{database_before}`")


def _current(connection: Any, request: Request) -> dict[str, str]:
    names = ", ".join(_quote(name) for name in request.settings)
    query = f"SELECT name, value, changed FROM system.settings WHERE name IN ({names})"
    rows = [json.loads(line) for line in connection.query(query, "JSONEachRow").bytes().splitlines()]
    return {row["name"]: _quote(row["value"]) if row["changed"] else "DEFAULT" for row in rows}


def _run(connection: Any, request: Request, need_room: Callable[[int], None]) -> Outcome:
    statement = request.statement
    if statement.input_format is None:
        result = connection.query(statement.sql, request.format, params=dict(request.parameters))
        body = bytes(result.bytes() or b"")
        rows, size = result.storage_rows_read(), result.storage_bytes_read()
        if statement.kind == "INSERT":
            return Outcome(body, rows, size, result.rows_written(), result.bytes_written())
        return Outcome(body, rows, size, result_rows=result.rows_read())
    for name, value in request.parameters.items():
        connection.query(f"SET param_{name} = {_quote(value)}")
    with connection.send_insert(statement.sql.decode("utf-8", "replace"), statement.input_format) as insert:
        sent_bytes = 0
        for piece in (statement.data,) if request.pieces is None else request.pieces:
            insert.append(piece)
            sent_bytes += len(piece)
        need_room(sent_bytes)
        written = insert.finish()
    need_room(0)
    return Outcome(b"", written_rows=written.rows_written, written_bytes=written.bytes_written)
