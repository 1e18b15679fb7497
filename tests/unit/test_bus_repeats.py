"""What a Kafka client repeats while a broker is away is said once in a while."""

from __future__ import annotations

import logging

from gpuledger.bus.repeats import MAX_KEPT, PAUSE_S, Repeats, quieten


def passed(repeats: Repeats, created_s: float, message: str) -> str | None:
    record = logging.LogRecord("client", logging.ERROR, __file__, 1, "%s", (message,), None)
    record.created = created_s
    return record.getMessage() if repeats.filter(record) else None


def test_a_repetition_is_kept_back_and_counted_where_it_is_said_again() -> None:
    repeats = Repeats()
    assert passed(repeats, 100.0, "node 1 is away, 31 ms") == "node 1 is away, 31 ms"
    assert passed(repeats, 100.1, "node 1 is away, 44 ms") is None
    assert passed(repeats, 100.2, "the group moved") == "the group moved"
    assert passed(repeats, 100.3, "node 2 is away, 44 ms") is None
    assert (
        passed(repeats, 100.0 + PAUSE_S, "node 1 is away, 5 ms")
        == "node 1 is away, 5 ms (and 2 times before)"
    )


def test_no_more_than_so_many_messages_are_remembered() -> None:
    repeats = Repeats()
    for number in range(10 * MAX_KEPT):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        assert passed(repeats, 100.0, name) == name
    assert len(repeats._said) <= MAX_KEPT


def test_every_logger_below_a_name_is_quietened_and_no_other() -> None:
    loud, other = logging.getLogger("quietened_here.fetcher"), logging.getLogger("other_here")
    quieten("quietened_here")
    assert [type(one) for one in loud.filters] == [Repeats]
    assert not other.filters
