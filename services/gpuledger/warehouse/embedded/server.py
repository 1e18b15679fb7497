"""ClickHouse's HTTP protocol in front of the embedded engine.

What it speaks: GET and POST on ``/`` and ``/ping``, the query in the parameter ``query``, in the body or in
both, inline data behind FORMAT, settings and ``param_x`` in the URL or a form, users by basic
authentication, headers or parameters, content encodings in both directions, sessions, ClickHouse's codes in
errors. What it refuses with NOT_IMPLEMENTED: external tables and ClickHouse's own compressed framing.
Results are complete before the first byte is sent, as with ``wait_end_of_query=1``.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from aiohttp import web
from multidict import MultiDict

from gpuledger.warehouse.embedded.body import MAX_BODY_BYTES, Pieces, streamed, too_large, whole
from gpuledger.warehouse.embedded.compression import encode
from gpuledger.warehouse.embedded.engine import SESSION_TIMEOUT_S, Engine, Outcome, Request
from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode
from gpuledger.warehouse.embedded.gate import Gate
from gpuledger.warehouse.embedded.statement import Statement, parse

MAX_RUNNING = 8  # threads in the engine; each query uses all cores anyway
MAX_WAITING = 100  # ClickHouse's default max_concurrent_queries
MAX_SESSION_TIMEOUT_S = 3600  # ClickHouse's default max_session_timeout

# Parameters of the transport, not settings of the query (clickhouse-connect sends most of them).
_TRANSPORT = {
    "query", "database", "default_format", "user", "password", "quota_key", "role", "query_id", "stacktrace",
    "session_id", "session_timeout", "session_check", "compress", "decompress", "buffer_size",
    "wait_end_of_query", "client_protocol_version", "send_progress_in_http_headers",
    "http_headers_progress_interval_ms", "enable_http_compression", "http_zlib_compression_level",
    "cancel_http_readonly_queries_on_client_close", "add_http_cors_header",
}  # fmt: skip
log = structlog.get_logger("gpuledger.warehouse")
_CONTENT_TYPES = {
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "Native": "application/octet-stream",
    "Arrow": "application/octet-stream",
    "ArrowStream": "application/octet-stream",
    "Parquet": "application/octet-stream",
    "RowBinary": "application/octet-stream",
}


@dataclass
class _Call:
    """An HTTP request taken apart: its text and its parameters (of the URL, then of a form).

    ``text`` is the statement as it came, or parsed already where the rows of an INSERT follow in ``pieces``.
    """

    text: bytes | Statement
    parameters: MultiDict[str]
    query_id: str
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Pieces | None = None

    def flag(self, name: str) -> bool:
        return self.parameters.get(name, "0") not in ("0", "", "false")


class ClickHouseHttp:
    """The request handlers; owns its threads, not the engine."""

    def __init__(self, engine: Engine, gate: Gate) -> None:
        self._engine = engine
        self._gate = gate
        self._threads = ThreadPoolExecutor(MAX_RUNNING, thread_name_prefix="query")
        self._waiting = 0

    def application(self) -> web.Application:
        """The aiohttp application; run it with ``auto_decompress=False`` (bodies are decoded here)."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/ping", self._ping)
        for path in ("/", "/query"):
            app.router.add_route("GET", path, self._handle)
            app.router.add_route("POST", path, self._handle)
        app.on_cleanup.append(self._stop)
        return app

    async def _stop(self, _: web.Application) -> None:
        await asyncio.to_thread(self._threads.shutdown, wait=True)  # they may wait for pieces of a body

    async def _ping(self, _: web.Request) -> web.Response:
        return web.Response(body=b"Ok.\n", content_type="text/html", charset="UTF-8")

    async def _handle(self, request: web.Request) -> web.Response:
        query_id = request.query.get("query_id") or str(uuid.uuid4())
        try:
            self._gate.admit(request)
            if request.method == "GET" and not request.query.get("query"):
                return await self._ping(request)
            call = await _take_apart(request, query_id)
            return await self._answer(request, call)
        except EngineError as error:
            return self._refusal(error, query_id)
        except (OSError, web.HTTPException):
            raise  # the client is gone, or aiohttp itself answers
        except Exception as error:
            log.error("a request failed", error=repr(error))
            return self._refusal(EngineError(ErrorCode.UNKNOWN_EXCEPTION, "The server failed"), query_id)

    async def _answer(self, http: web.Request, call: _Call) -> web.Response:
        for name in ("compress", "decompress"):
            if call.flag(name):
                raise EngineError(
                    ErrorCode.NOT_IMPLEMENTED, f"{name}=1: use Content-Encoding and Accept-Encoding"
                )
        started = time.perf_counter_ns()
        if self._waiting >= MAX_RUNNING + MAX_WAITING:
            raise EngineError(ErrorCode.TOO_MANY_SIMULTANEOUS_QUERIES, "Too many simultaneous queries")
        accept = http.headers.get("Accept-Encoding", "") if call.flag("enable_http_compression") else ""
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._run, http.method, call, accept, started)
        finally:
            self._waiting -= 1

    def _run(self, method: str, call: _Call, accept: str, started: int) -> web.Response:
        statement = parse(call.text) if isinstance(call.text, bytes) else call.text
        if method == "GET" and not statement.reads_only:
            raise EngineError(
                ErrorCode.READONLY,
                f"Cannot execute query in readonly mode. For queries over HTTP, method GET implies readonly. "
                f"You should use method POST for {statement.kind} queries.",
            )
        fallback = (
            call.parameters.get("default_format") or call.headers.get("X-ClickHouse-Format") or "TabSeparated"
        )
        outcome = self._engine.run(
            Request(
                statement=statement,
                database=call.parameters.get("database") or call.headers.get("X-ClickHouse-Database", ""),
                format=fallback,
                settings={
                    k: v for k, v in call.parameters.items() if k not in _TRANSPORT and k[:6] != "param_"
                },
                parameters={k[6:]: v for k, v in call.parameters.items() if k.startswith("param_")},
                session_id=call.parameters.get("session_id", ""),
                session_timeout_s=_session_timeout(call.parameters),
                session_check=call.flag("session_check"),
                pieces=call.pieces,
            )
        )
        headers = self._headers(call.query_id)
        headers["X-ClickHouse-Summary"] = _summary(outcome, time.perf_counter_ns() - started)
        content_type = "text/plain; charset=UTF-8"
        if statement.returns_rows:
            used = statement.output_format or fallback
            headers["X-ClickHouse-Format"] = used
            content_type = _CONTENT_TYPES.get(used, content_type)
        body, encoding = encode(outcome.body, accept) if outcome.body else (outcome.body, None)
        if encoding:
            headers["Content-Encoding"] = encoding
        return web.Response(body=body, headers=headers | {"Content-Type": content_type})

    def _headers(self, query_id: str) -> dict[str, str]:
        return {
            "X-ClickHouse-Query-Id": _printable(query_id),
            "X-ClickHouse-Timezone": "UTC",
            "X-ClickHouse-Server-Display-Name": "gpuledger",
        }

    def _refusal(self, error: EngineError, query_id: str) -> web.Response:
        text = str(error)
        if "(version " not in text:
            text += f" (version {self._engine.version})"
        headers = self._headers(query_id) | {"X-ClickHouse-Exception-Code": str(error.code)}
        if error.http_status == 401 or error.code == ErrorCode.AUTHENTICATION_FAILED:
            headers["WWW-Authenticate"] = 'Basic realm="ClickHouse server HTTP API"'
        return web.Response(status=error.http_status, text=text + "\n", headers=headers)


async def _take_apart(request: web.Request, query_id: str) -> _Call:
    parameters = MultiDict(request.query)
    headers = {
        name: value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        for name, value in request.headers.items()
        if name.startswith("X-ClickHouse-")
    }
    body = b""
    if request.method == "POST":
        statement = streamed(request, parameters.get("query", ""))
        if statement:
            return _Call(statement, parameters, query_id, headers, Pieces(request))
        if request.content_type == "multipart/form-data":
            for name, value in (await _form(request)).items():
                if not isinstance(value, str):
                    raise EngineError(ErrorCode.NOT_IMPLEMENTED, f"External table {name} is not supported")
                parameters[name] = value
        else:
            body = await whole(request)
    query = parameters.get("query", "").encode()
    text = query + b"\n" + body if query and body else query or body
    return _Call(text, parameters, query_id, headers)


async def _form(request: web.Request) -> Mapping[str, object]:
    try:
        return await request.post()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large() from error
    except (ValueError, LookupError, RuntimeError) as error:
        raise EngineError(ErrorCode.BAD_ARGUMENTS, "Cannot read the multipart form") from error


def _session_timeout(parameters: Mapping[str, str]) -> int:
    text = parameters.get("session_timeout", str(SESSION_TIMEOUT_S))
    if not (text.isascii() and text.isdigit()) or int(text) > MAX_SESSION_TIMEOUT_S:
        raise EngineError(
            ErrorCode.BAD_ARGUMENTS, f"Invalid session timeout: {text!r}, at most {MAX_SESSION_TIMEOUT_S}"
        )
    return int(text)


def _summary(outcome: Outcome, elapsed_ns: int) -> str:
    counts = {
        "read_rows": outcome.read_rows,
        "read_bytes": outcome.read_bytes,
        "written_rows": outcome.written_rows,
        "written_bytes": outcome.written_bytes,
        "total_rows_to_read": outcome.read_rows,
        "result_rows": outcome.result_rows,
        "result_bytes": len(outcome.body),
        "elapsed_ns": elapsed_ns,
    }
    return json.dumps({name: str(value) for name, value in counts.items()})


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable() and ord(c) < 127)[:128]
