"""Start and stop the embedded server: for the command line, the demo and the tests."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gpuledger.contract.errors import ConfigError
from gpuledger.warehouse.embedded.body import PIECE_BYTES
from gpuledger.warehouse.embedded.engine import DATABASE, Engine
from gpuledger.warehouse.embedded.gate import DEFAULT_USER, Gate, is_local
from gpuledger.warehouse.embedded.server import ClickHouseHttp

STOP_GRACE_S = 5  # a query that runs longer than this is cut when the server is told to stop


@dataclass(frozen=True)
class ServeOptions:
    """Where the embedded server keeps its data and listens; port 0 takes a free one."""

    path: Path
    host: str = "127.0.0.1"
    port: int = 8123
    user: str = DEFAULT_USER
    password: str = ""

    def __post_init__(self) -> None:
        if not is_local(self.host) and not self.password:
            raise ConfigError(
                f"to listen on {self.host}, set a password: anyone who reaches the port could read"
            )


def serve(options: ServeOptions, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; calls ``ready`` with the URL once it answers.

    Raises ConfigError when the data path or the port is taken.
    """
    engine = Engine(options.path)
    try:
        asyncio.run(_serve(engine, options, ready))
    finally:
        engine.close()


async def _serve(engine: Engine, options: ServeOptions, ready: Callable[[str], None]) -> None:
    server = ClickHouseHttp(engine, Gate(options.user, options.password))
    runner = web.AppRunner(
        server.application(),
        auto_decompress=False,
        access_log=None,
        shutdown_timeout=STOP_GRACE_S,
        read_bufsize=PIECE_BYTES,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, options.host, options.port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(f"cannot listen on {options.host}:{options.port}: {error.strerror}") from error
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        port = runner.addresses[0][1]
        ready(f"clickhouse://{options.host}:{port}/{DATABASE}")
        await stop.wait()
    finally:
        await runner.cleanup()
