"""The shell between Faust's loop and the engine, at its end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from gpuledger.processor.shell import Shell, Work


def test_after_its_close_nothing_is_done_any_more_and_nothing_fails() -> None:
    made: list[int] = []

    def make() -> Work:
        made.append(1)
        raise AssertionError("an engine for a worker that ends")

    async def end() -> None:
        shell = Shell(SimpleNamespace(), make)
        await shell.close()
        await shell.tick()
        await shell.feed([])

    asyncio.run(end())
    assert not made
