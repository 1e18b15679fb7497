"""The probes on a driver that comes, goes and comes back: what was lost stays counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.agent.probes import driver_watch
from gpuledger.agent.probes.driver import DriverLosses, DriverReport
from gpuledger.agent.probes.driver_watch import DRIVER, UVM, DriverWatch
from gpuledger.contract.errors import Unsupported


class Probes:
    """Attached to nothing: it has lost seven calls, and may be refused by the kernel."""

    refused = False
    closed = 0

    def start(self) -> DriverReport:
        if Probes.refused:
            raise Unsupported("no kprobes")
        return DriverReport(("nvidia_open",), ())

    def losses(self) -> DriverLosses:
        return DriverLosses(ring_full=7)

    def close(self) -> None:
        Probes.closed += 1


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(driver_watch, "DriverProbes", Probes)
    monkeypatch.setattr(Probes, "refused", False)
    monkeypatch.setattr(Probes, "closed", 0)
    return tmp_path


def test_what_was_lost_of_a_driver_that_went_stays_counted(modules: Path) -> None:
    watch = DriverWatch(modules)
    counts = []
    for _ in range(2):
        (modules / DRIVER).mkdir()
        watch.follow()
        watch.follow()
        counts.append(watch.losses().ring_full)
        (modules / DRIVER).rmdir()
        watch.follow()
        counts.append(watch.losses().ring_full)
    assert counts == [7, 7, 14, 14]
    assert Probes.closed == 2


def test_the_second_module_that_comes_later_is_probed_too(modules: Path) -> None:
    watch = DriverWatch(modules)
    (modules / DRIVER).mkdir()
    watch.follow()
    (modules / UVM).mkdir()
    watch.follow()
    assert Probes.closed == 1
    assert watch.report() is not None


def test_a_driver_that_can_not_be_probed_is_reported_and_nothing_is_drained(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probes, "refused", True)
    watch = DriverWatch(modules)
    (modules / DRIVER).mkdir()
    watch.follow()
    report = watch.report()
    assert report is not None
    assert report.error == "no kprobes"
    assert (len(watch.drain()), watch.losses(), watch.xids()) == (0, DriverLosses(), [])
