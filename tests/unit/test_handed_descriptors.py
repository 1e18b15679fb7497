"""Descriptors of programs and maps, handed over a socket."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuledger.agent.probes.handed import Handed, receive, send, send_problem
from gpuledger.contract.errors import Unsupported


def made(count: int) -> dict[str, int]:
    return {f"name{number}": os.memfd_create(f"m{number}") for number in range(count)}


@pytest.mark.parametrize(("programs", "maps"), [(0, 0), (1, 0), (0, 3), (131, 137)])
def test_each_arrives_under_its_name(programs: int, maps: int) -> None:
    ours, theirs = socket.socketpair()
    handed = Handed(made(programs), made(maps))
    with ours, theirs:
        send(theirs, handed)
        taken = receive(ours)
    assert list(taken.programs) == list(handed.programs)
    assert list(taken.maps) == list(handed.maps)
    for before, after in zip(handed.descriptors(), taken.descriptors(), strict=True):
        assert os.fstat(before).st_ino == os.fstat(after).st_ino
        assert not os.get_inheritable(after)
    for fd in (*handed.descriptors(), *taken.descriptors()):
        os.close(fd)


def test_a_problem_arrives_in_its_words() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_problem(theirs, "no headers")
        with pytest.raises(Unsupported, match="no headers"):
            receive(ours)


def test_an_end_without_a_word_is_told_and_leaves_no_descriptor_open() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.sendall((49).to_bytes(4, "little") + b'{"programs": ["a", "b", "c", "d"], "maps": ["e"]}')
            with os.fdopen(os.memfd_create("handed-and-left")) as file:
                socket.send_fds(theirs, [b"x"], [file.fileno()])
        with pytest.raises(EOFError):
            receive(ours)
    assert "handed-and-left" not in "\n".join(open_files())


def open_files() -> Iterator[str]:
    """What the descriptors of this process are of; other threads open and close some meanwhile."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(descriptor.readlink())


def test_a_message_of_any_length_is_not_believed() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(Unsupported):
            receive(ours)
