"""Who calls, as versions, notes and generations keep it."""

from __future__ import annotations

import getpass
import os

import pytest

from gpuledger.documents import whoever_calls

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_a_user_has_the_name_that_the_machine_knows() -> None:
    assert whoever_calls() == getpass.getuser()


def test_a_user_without_a_name_as_containers_have_them_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54_321_987)
    assert whoever_calls() == "uid 54321987"
