"""A connection to a server that can be cut, held and muted: a TCP proxy in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from gpuledger.localstack.server import LOOPBACK, free_port

CHUNK_BYTES = 64 << 10
INSERT, HEAD_BYTES = b"INSERT", 4096  # in the address of a request, or where its body begins
SAID_S = 0.5
STARTED_S = 10.0


class Link:
    """Clients connect to ``port`` and reach the server's port through it.

    ``cut`` ends every connection and takes no new one. ``hold`` lets nothing pass either way. ``mute`` lets
    requests pass and no answers: what was asked is done and nobody knows. ``join`` makes it whole: what was
    held comes late. ``sever`` cuts and joins at once: what was held never comes. ``refuse`` answers inserts
    over HTTP as ClickHouse does where it takes none, until ``accept``; they never reach the server.
    ``note`` hears what each of these came to, from the thread of the link: a connection that was ended, data
    that had to wait, an insert that was refused.
    """

    def __init__(self, server_port: Callable[[], int], note: Callable[[str], None] = lambda _: None) -> None:
        self.port = free_port()
        self._server_port = server_port
        self._note = note
        self._loop = asyncio.new_event_loop()
        self._open = {"request": asyncio.Event(), "answer": asyncio.Event()}
        self._refusing = False
        self._refusal = b""
        self._refused = ""
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"link-{self.port}", daemon=True)

    def start(self) -> None:
        """Listen; returns once clients can connect."""
        self._thread.start()
        if not self._ready.wait(STARTED_S):
            raise TimeoutError(f"nobody listens on {self.port}")
        self.join()

    def cut(self) -> None:
        """See Link."""
        self._do(lambda: self._set(request=False, answer=False, refusing=True))

    def hold(self) -> None:
        """See Link."""
        self._do(lambda: self._set(request=False, answer=False))

    def mute(self) -> None:
        """See Link."""
        self._do(lambda: self._set(request=True, answer=False))

    def join(self) -> None:
        """See Link."""
        self._do(lambda: self._set(request=True, answer=True))

    def sever(self) -> None:
        """See Link."""
        self.cut()
        self.join()

    def refuse(self, code: int, says: str) -> None:
        """See Link."""
        said = f"Code: {code}. DB::Exception: {says}. (version 25.8)\n"
        head = f"HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: {code}\r\n"
        head += f"Content-Type: text/plain\r\nContent-Length: {len(said)}\r\nConnection: close\r\n\r\n"
        self._refused = f"refuse {code}"
        self._refusal = (head + said).encode()

    def accept(self) -> None:
        """See Link."""
        self._refusal = b""

    def close(self) -> None:
        """End all of it."""
        self._do(self._loop.stop)
        self._thread.join(STARTED_S)

    def _set(self, request: bool, answer: bool, refusing: bool = False) -> None:
        self._refusing = refusing
        for name, passes in (("request", request), ("answer", answer)):
            (self._open[name].set if passes else self._open[name].clear)()
        if refusing:
            for connection in self._connections:
                self._note("cut")
                connection.cancel()

    def _do(self, action: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(action)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        listening = asyncio.start_server(self._accept, LOOPBACK, self.port)
        self._server = self._loop.run_until_complete(listening)
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if self._refusing:
                self._note("cut")
            else:
                await self._connected(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either end is gone, or the connection is cut
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._server_port())
        pumps = [
            asyncio.create_task(self._pump("request", reader, far_writer, writer)),
            asyncio.create_task(self._pump("answer", far_reader, writer, far_writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            far_writer.transport.abort()

    async def _pump(
        self, way: str, source: asyncio.StreamReader, target: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if not self._open[way].is_set():
                    self._note("mute" if self._open["request"].is_set() else "hold")
                await self._open[way].wait()
                if way == "request" and self._refusal and INSERT in data[:HEAD_BYTES].upper():
                    self._note(self._refused)
                    back.write(self._refusal)
                    await back.drain()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(SAID_S):  # or what is still sent would reset the answer
                            while await source.read(CHUNK_BYTES):
                                pass
                    return
                target.write(data)
                await target.drain()
