"""Records between Faust's stream and the engine: taken in bunches, bounded by count and by bytes.

Faust's own ``noack_take`` counts records only, and a thousand of the largest would be eight gigabytes.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Taking:
    """One task puts, another takes; both in one event loop."""

    def __init__(self, records: int, size_bytes: int, within_s: float) -> None:
        """A bunch is handed on once it has so many records or bytes, or ``within_s`` after its first one."""
        self._records = records
        self._size_bytes = size_bytes
        self._within_s = within_s
        self._events: list[Any] = []
        self._held_bytes = 0
        self._changed = asyncio.Condition()

    async def put(self, event: Any) -> None:
        """Add an event; waits while a full bunch has not been taken."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_full())
            self._events.append(event)
            self._held_bytes += len(event.message.value or b"")
            self._changed.notify_all()

    async def take(self) -> list[Any]:
        """The next bunch, of at least one event; waits for it."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._events))
            try:
                async with asyncio.timeout(self._within_s):
                    await self._changed.wait_for(self._is_full)
            except TimeoutError:
                pass
            events, self._events, self._held_bytes = self._events, [], 0
            self._changed.notify_all()
            return events

    def _is_full(self) -> bool:
        return len(self._events) >= self._records or self._held_bytes >= self._size_bytes
