"""Notify in a thread, on a topic of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from gpuledger.bus import BusSettings
from gpuledger.notify import NotifyOptions, http, read_targets, run
from tests.support.waiting import PATIENCE_S


@contextmanager
def notifying(bus: BusSettings, topic: str, group: str, *targets: dict[str, Any]) -> Iterator[None]:
    """Deliver to the targets, which are as in a document, until the block ends."""
    text = yaml.safe_dump({"kind": "notify", "targets": list(targets)})
    options = NotifyOptions(bus, read_targets(text, "targets.yaml"), topic, group, session_timeout_s=45)
    stop, failure = threading.Event(), []

    def work() -> None:
        try:
            run(options, stop)
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=work)
    with pytest.MonkeyPatch.context() as patient:  # who answers has answered in time
        patient.setattr(http, "TIMEOUT_S", PATIENCE_S)
        worker.start()
        try:
            yield
        finally:
            stop.set()
            worker.join()
    assert not failure, failure
