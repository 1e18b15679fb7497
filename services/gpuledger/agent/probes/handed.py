"""Programs and maps handed from one process to another: their descriptors, by name, over a socket."""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuledger.contract.errors import Unsupported

_AT_ONCE: Final = 128  # descriptors of one message; the kernel takes 253 (SCM_MAX_FD)
_MAX_MESSAGE_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True)
class Handed:
    """Descriptors by name; whoever has them closes them."""

    programs: dict[str, int]
    maps: dict[str, int]

    def descriptors(self) -> Iterator[int]:
        """Each of them once."""
        yield from self.programs.values()
        yield from self.maps.values()


def send(channel: socket.socket, handed: Handed) -> None:
    """Hand them over; the sender's own stay open until it closes them."""
    names = {"programs": list(handed.programs), "maps": list(handed.maps)}
    _send_message(channel, names)
    descriptors = list(handed.descriptors())
    for start in range(0, len(descriptors), _AT_ONCE):
        some = array.array("i", descriptors[start : start + _AT_ONCE])
        channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])


def send_problem(channel: socket.socket, problem: str) -> None:
    """Say instead why there is nothing to hand over."""
    _send_message(channel, {"problem": problem})


def receive(channel: socket.socket) -> Handed:
    """What the other side sends. Raises Unsupported with its problem, EOFError where it ends without a word,
    TimeoutError as the socket has it."""
    message = json.loads(_exactly(channel, int.from_bytes(_exactly(channel, _LENGTH_BYTES), "little")))
    if "problem" in message:
        raise Unsupported(message["problem"])
    names = [*message["programs"], *message["maps"]]
    found: list[int] = []
    try:
        while len(found) < len(names):
            data, some, _, _ = socket.recv_fds(channel, 1, _AT_ONCE)
            if not data or not some:
                raise EOFError
            found += some
    except BaseException:
        for fd in found:
            os.close(fd)
        raise
    for fd in found:
        os.set_inheritable(fd, False)
    programs = len(message["programs"])
    return Handed(
        dict(zip(names[:programs], found[:programs], strict=True)),
        dict(zip(names[programs:], found[programs:], strict=True)),
    )


def _send_message(channel: socket.socket, message: object) -> None:
    text = json.dumps(message).encode()
    channel.sendall(len(text).to_bytes(_LENGTH_BYTES, "little") + text)


def _exactly(channel: socket.socket, count: int) -> bytes:
    if count > _MAX_MESSAGE_BYTES:
        raise Unsupported(f"a message of {count} bytes is none of ours")
    taken = bytearray()
    while len(taken) < count:
        data = channel.recv(count - len(taken))
        if not data:
            raise EOFError
        taken += data
    return bytes(taken)
