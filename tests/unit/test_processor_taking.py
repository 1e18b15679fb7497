"""Bunches of records between the stream and the engine."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from gpuledger.processor.taking import Taking


def event(size_bytes: int) -> SimpleNamespace:
    return SimpleNamespace(message=SimpleNamespace(value=bytes(size_bytes)))


async def bunches(taking: Taking, sizes: list[int]) -> list[list[int]]:
    async def put() -> None:
        for size in sizes:
            await taking.put(event(size))

    putting = asyncio.create_task(put())
    taken: list[list[int]] = []
    while sum(map(len, taken)) < len(sizes):
        taken.append([len(one.message.value) for one in await taking.take()])
    await putting
    return taken


def test_a_bunch_has_no_more_bytes_than_it_may_and_one_record_at_least() -> None:
    found = asyncio.run(bunches(Taking(100, 10, within_s=60), [4, 4, 4, 30, 5, 5]))
    assert found == [[4, 4, 4], [30], [5, 5]]


def test_a_bunch_has_no_more_records_than_it_may() -> None:
    assert asyncio.run(bunches(Taking(2, 1000, within_s=60), [1, 1, 1, 1])) == [[1, 1], [1, 1]]


def test_a_bunch_that_does_not_fill_is_handed_on_after_its_time() -> None:
    assert asyncio.run(bunches(Taking(100, 1000, within_s=0.01), [1, 2])) == [[1, 2]]
