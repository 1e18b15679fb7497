"""The body of a request, whole or piece by piece.

Rows of an INSERT whose statement stands in the URL go into the engine as they come. An insert of 50 MB then
takes no memory to speak of; held whole it is copied four times, each time into fresh pages, and that costs
more than the insert itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from aiohttp import web

from gpuledger.warehouse.embedded.compression import decode
from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode
from gpuledger.warehouse.embedded.statement import Statement, parse

MAX_BODY_BYTES = (
    512 << 20
)  # of any body; one that is not an insert with its statement in the URL is held whole
PIECE_BYTES = 1 << 20  # small enough that the allocator has it at hand, 50 ways to the engine for 50 MB
RECEIVE_TIMEOUT_S = 30  # between two pieces, as ClickHouse's http_receive_timeout: a thread waits for them


def streamed(request: web.Request, query: str) -> Statement | None:
    """The statement of an INSERT whose rows are all of the body, untouched; None where they are not.

    Rows of FORMAT Values are expressions, which must be read before the engine gets them.
    """
    if not query or request.headers.get("Content-Encoding") or request.content_type.startswith("multipart/"):
        return None
    try:
        statement = parse(query.encode() + b"\n")
    except EngineError:
        return None  # the rest of it may stand in the body
    rows_follow = statement.input_format is not None and statement.input_format.upper() != "VALUES"
    return statement if rows_follow and not statement.data else None


class Pieces:
    """A body that is read in the loop that made this, and handed out in another thread, once."""

    def __init__(self, request: web.Request) -> None:
        self._content = request.content
        self._loop = asyncio.get_running_loop()

    def __iter__(self) -> Iterator[bytes]:
        """Pieces of at most PIECE_BYTES. Raises EngineError where the body is too large or does not come,
        and OSError or aiohttp's ClientError where the client left before its end."""
        size = 0
        while piece := asyncio.run_coroutine_threadsafe(self._next(), self._loop).result():
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise too_large()
            yield piece

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(RECEIVE_TIMEOUT_S):
                return await self._content.read(PIECE_BYTES)
        except TimeoutError as error:
            raise EngineError(
                ErrorCode.SOCKET_TIMEOUT, f"No data from the client for {RECEIVE_TIMEOUT_S} s"
            ) from error


async def whole(request: web.Request) -> bytes:
    """The body, unpacked. Raises EngineError."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large() from error
    encoding = request.headers.get("Content-Encoding", "").lower()
    if not encoding:
        return body
    return await asyncio.to_thread(decode, body, encoding, MAX_BODY_BYTES)


def too_large() -> EngineError:
    """The refusal of a body above MAX_BODY_BYTES."""
    return EngineError(ErrorCode.QUERY_IS_TOO_LARGE, f"Body is larger than {MAX_BODY_BYTES} bytes")
