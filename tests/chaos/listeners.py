"""Ways to one broker: each agent has a listener of its own, so that its connection can be broken alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONTROLLER = "CONTROLLER"


def properties(through: int, agents: Sequence[tuple[int, int]]) -> Mapping[str, str]:
    """The broker's settings: clients are told the port ``through``. Of each agent the port where the broker
    listens for it, and the port that it is told."""
    own = {f"AGENT{number}": ports for number, ports in enumerate(agents)}
    control = f"{CONTROLLER}://{{host}}:{{controller_port}}"
    listens = [f"{name}://{{host}}:{port}" for name, (port, _) in own.items()]
    told = [f"{name}://{{host}}:{port}" for name, (_, port) in own.items()]
    return {
        "listeners": ",".join(["PLAINTEXT://{host}:{port}", control, *listens]),
        "advertised.listeners": ",".join([f"PLAINTEXT://{{host}}:{through}", control, *told]),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", CONTROLLER, *own)
        ),
    }
