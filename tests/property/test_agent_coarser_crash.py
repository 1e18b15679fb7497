"""An agent that ends at any instant of making what waits coarser: each record is there once, old or new.

A child process ends without any cleaning up, as by kill -9, at the n-th call that changes the disk, in
the middle of what it writes or after it, for every n until none is left."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from gpuledger.agent.rules import HOLLOW, TALLY
from gpuledger.agent.spool import Entry
from tests.support.coarser import all_of, coarseness_of, fill, made_coarser, opened, simulated
from tests.support.spool import entry

SECONDS = 22
BOUND = 1_000_000
OTHER_BYTES = 100_000

CHILD = textwrap.dedent(
    """
    import os, shutil, sys
    from pathlib import Path
    from gpuledger.agent.coarser import SpoolCoarsener, spool
    from tests.support.coarser import opened

    CHANGES = ("pwrite", "fsync", "ftruncate", "replace", "unlink", "open")
    source, target, bound = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

    def dies(call, name, at, within):
        def changing(*arguments, **more):
            dies.calls += 1
            if within and dies.calls == at and name == "pwrite":
                fd, data, offset = arguments
                call(fd, data[: len(data) // 2], offset)
                os._exit(9)
            try:
                return call(*arguments, **more)
            finally:
                if not within and dies.calls == at:
                    os._exit(9)
        return changing

    def life(directory, at, within):
        spool.TALLIED_FROM = spool.HOLLOW_FROM = 0.0  # all that can be is done, one step after the other
        queue = opened(directory, bound)
        coarsener = SpoolCoarsener(queue)
        dies.calls = 0
        for name in CHANGES:
            setattr(os, name, dies(getattr(os, name), name, at, within))
        while coarsener.step():
            pass

    def code_of(at, within):
        directory = target / f"{at}-{within}"
        shutil.copytree(source, directory)
        child = os.fork()
        if not child:
            life(directory, at, within)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9), code
        return code

    at = 1
    while code_of(at, False):  # until there is no such call any more
        code_of(at, True)
        at += 1
    print(at)
    """
)


def waiting(directory: Path) -> list[Entry]:
    queue = opened(directory, BOUND)
    found = all_of(queue)
    queue.close()
    return found


def test_a_kill_at_any_call_leaves_each_record_once_as_it_was_or_coarser(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    queue = opened(source, BOUND)
    other = entry(0, OTHER_BYTES)._replace(record="NodeLifetime")
    fill(queue, [*simulated(SECONDS), other])  # the windows are on disk alone
    queue.close()
    before = waiting(shutil.copytree(source, tmp_path / "before"))
    tallied = made_coarser(before, TALLY)
    frames = made_coarser(tallied, HOLLOW)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(source), str(target), str(BOUND)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40  # calls at which it ended
    outcomes = set()
    for directory in target.iterdir():
        found = waiting(directory)
        assert not list(directory.glob("*.coarser"))
        assert all(one in versions for one, *versions in zip(found, before, tallied, frames, strict=True))
        levels = list(coarseness_of(found).values())
        assert levels == sorted(levels, reverse=True), "the oldest first"
        outcomes.add((levels.count(TALLY), levels.count(HOLLOW)))
    assert {(1, 0), (2, 0), (1, 1), (0, 2)} <= outcomes, "each step was seen"
