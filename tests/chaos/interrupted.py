"""``python -m tests.chaos.interrupted ...``: gpuledger that is killed soon after it began to publish.

DIES_AFTER_S is the time in s from the moment it publishes a version of a document, or the copy of a refused
record, to its SIGKILL; without it nothing happens.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from gpuledger.cli import main
from gpuledger.configuration import Documents
from gpuledger.deadletters.retry import Retries

DIES_AFTER_S = "CHAOS_DIES_AFTER_S"


def die_after(seconds: float) -> None:
    """SIGKILL to this process, from a thread of its own."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


def armed(step: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """The step, whose beginning starts the clock; not where it only tries."""

    def run(*arguments: Any, **options: Any) -> Any:
        if not options.get("dry_run"):
            die_after(seconds)
        return step(*arguments, **options)

    return run


if __name__ == "__main__":
    if DIES_AFTER_S in os.environ:
        after_s = float(os.environ[DIES_AFTER_S])
        for owner, name in ((Documents, "apply"), (Retries, "send")):
            setattr(owner, name, armed(getattr(owner, name), after_s))
    main()
