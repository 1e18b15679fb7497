"""The agent's process: ``python -m gpuledger.agent.lean FD``, as `gpuledger agent run` becomes it.

What is imported here, and what it imports, is what every node of a fleet carries around the clock: see
tests/integration/test_agent_cost.py for what must not be among it.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from gpuledger.agent.privileges import keep_only_needed, missing
from gpuledger.bus.bare_client import bare_client
from gpuledger.contract.errors import GpuledgerError, exit_status, in_a_line
from gpuledger.logs import EventLog, write_json_lines

_log = EventLog("gpuledger.agent.lean")  # as a program it is __main__


def watch(fd: int, kept: Sequence[str]) -> None:
    """Watch this node until SIGTERM or SIGINT, as the orders in ``fd`` say. ``kept``: its capabilities."""
    bare_client()  # before anything imports the package
    from gpuledger.agent import footprint, handover
    from gpuledger.agent.rounds import Rounds
    from gpuledger.agent.runtime import running
    from gpuledger.contract.clock import SystemClock

    orders = handover.take_over(fd)
    clock = SystemClock()
    rounds = Rounds(clock)
    if orders.metrics_port is not None:
        from gpuledger.agent import metrics
        from gpuledger.agent.metrics_server import serve_metrics

        serve_metrics(orders.metrics_port, orders.metrics_address, metrics.REGISTRY, rounds.problem)
    with running(orders.settings, orders.sources, orders.bus, clock) as (agent, _):
        _log.info("capabilities", kept=kept, lacking=[one.name for one in missing()])

        def stop(number: int, frame: FrameType | None) -> None:
            agent.stop()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        gc.collect()
        gc.freeze()  # what is there by now stays: a collection need not look at it again
        with footprint.Keeper():
            agent.run(orders.ends_node, rounds.come)


def main() -> None:
    """Errors that are ours are one line on stderr and an exit code, never a traceback."""
    write_json_lines()
    try:
        kept = keep_only_needed()
        watch(int(sys.argv[1]), kept)
    except (GpuledgerError, OSError) as error:
        print(f"error: {in_a_line(error)}", file=sys.stderr)
        sys.exit(exit_status(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
