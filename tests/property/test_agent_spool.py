"""The queue against a plain list, under any order of appends, sends, confirmations, breaks and restarts."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.agent.spool import Entry, Journal, NodeQueue, Ticket

STEPS = st.lists(
    st.sampled_from(["append", "append", "take", "take", "acknowledge", "rewind", "restart", "note"]),
    max_size=80,
)


@given(STEPS, st.integers(100, 900), st.integers(0, 1500))
@settings(max_examples=200, deadline=None)
def test_the_queue_is_a_list_from_which_only_what_was_confirmed_disappears(
    steps: list[str], segment_bytes: int, memory_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:

        def opened() -> NodeQueue:
            return NodeQueue(Journal(Path(directory), 1 << 20, segment_bytes), memory_bytes)

        queue, made = opened(), 0
        waiting: deque[int] = deque()
        flying: deque[tuple[int, Ticket]] = deque()
        for step in steps:
            if step == "append":
                assert queue.append(Entry("EventBatch", b"k", made.to_bytes(4, "big") + bytes(made % 97)))
                waiting.append(made)
                made += 1
            elif step == "take":
                ticket = queue.take(0)
                assert (ticket is None) == (not waiting)
                if ticket is not None:
                    number = int.from_bytes(ticket.entry.body[:4], "big")
                    assert number == waiting.popleft()
                    flying.append((number, ticket))
            elif step == "acknowledge" and flying:
                queue.acknowledge(flying.popleft()[1])
            elif step == "rewind":
                queue.rewind()
                waiting.extendleft(number for number, _ in reversed(flying))
                flying.clear()
            elif step == "note":
                queue.note(sync=False)
            elif step == "restart":
                queue.close()
                queue = opened()
                waiting.extendleft(number for number, _ in reversed(flying))
                flying.clear()
            assert queue.is_empty == (not waiting and not flying)
        queue.close()
