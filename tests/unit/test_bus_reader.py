"""A reader that hears of errors alone gives up in time. The client is played: no broker errs at will."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.bus import reader as under_test
from gpuledger.contract.errors import KafkaUnavailable


class Erring:
    """A message that is an error after which the client goes on."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._TRANSPORT, "the broker hung up", False, True)


class ErringConsumer:
    """Has records before offset 10, and tells only of errors."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 0, 10

    def consume(self, count: int, timeout: float) -> list[Erring]:
        self._clock[0] += 1
        return [Erring()]

    def assign(self, _: Any) -> None: ...

    def unassign(self) -> None: ...

    def close(self) -> None: ...


def test_errors_are_no_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda *_, **__: ErringConsumer(clock))
    monkeypatch.setattr(under_test.time, "monotonic", lambda: clock[0])
    bus = BusSettings(kafka_bootstrap="127.0.0.1:1", registry_url="http://127.0.0.1:1")
    with (
        PartitionReader(bus, "test") as reader,
        pytest.raises(KafkaUnavailable, match=r"no record for 60 s \(the broker hung up\)"),
    ):
        list(reader.read_to_end("charges", 0))
    assert clock[0] == under_test.STALL_TIMEOUT_S + 1
