"""A port that was chosen for one server is chosen for no other, in whichever process."""

import subprocess
import sys

import pytest

from gpuledger.localstack import StackError, free_port, server

FIRST = 19_980
CHOOSE = """
import sys
from gpuledger.localstack import free_port, server
server.FIRST_PORT, server.LAST_PORT = int(sys.argv[1]), int(sys.argv[2])
print(free_port(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_PORT", FIRST)
    monkeypatch.setattr(server, "LAST_PORT", FIRST + 4)


def test_a_port_is_given_once_while_who_asked_for_it_lives() -> None:
    command = [sys.executable, "-c", CHOOSE, str(FIRST), str(FIRST + 4)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        ours = {free_port() for _ in range(3)}
        assert ours | {theirs} == set(range(FIRST, FIRST + 4))
        with pytest.raises(StackError, match="no free port"):
            free_port()
        other.communicate("")
    assert free_port() == theirs
