"""Run one command and let it never outlive the process that asked for it.

A script, run as `python -I -S supervise.py PARENT_PID PID_FILE COMMAND...`: it imports nothing of this
package. PR_SET_PDEATHSIG alone would not do: it fires when the *thread* that forked ends, and servers
are started from thread pools too. So this process watches the parent by its id, and the command is
bound to this process:

- parent gone (also by SIGKILL): SIGTERM to the command, SIGKILL after GRACE_S;
- SIGTERM here: the same;
- SIGKILL here: the kernel kills the command at once (PR_SET_PDEATHSIG, forked from this main thread).

It ends with the command's exit status, or 128 + signal.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL_S = 0.05  # how soon a vanished parent or an ended command is seen; 20 wake-ups a second cost nothing
GRACE_S = 10.0  # a broker flushes and hands over in about 2 s; after this it hangs


def _spawn(command: list[str]) -> int:
    me = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)
    pid = os.fork()
    if pid:
        return pid
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == me:  # else this process died between the fork and the prctl
            os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def main(argv: list[str]) -> int:
    """Supervise until the command has ended; returns its status."""
    parent, pid_file, command = int(argv[0]), Path(argv[1]), argv[2:]
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = _spawn(command)
    pid_file.write_text(f"{child}\n", encoding="ascii")
    kill_at: float | None = None
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return (
                os.waitstatus_to_exitcode(status) % 256 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            )
        if kill_at is None and (asked or os.getppid() != parent):
            os.kill(child, signal.SIGTERM)
            kill_at = time.monotonic() + GRACE_S
        elif kill_at is not None and time.monotonic() > kill_at:
            os.kill(child, signal.SIGKILL)
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
