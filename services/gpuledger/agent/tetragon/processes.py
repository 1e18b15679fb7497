"""Which process and which cgroup an event of Tetragon's is of.

The kernel says it, as far as the process still lives: its start and its cgroup, from /proc. Of one that is
gone Tetragon's record of it says which pod and container it was in, which Tetragon has from the cgroup at
execve; such a cgroup gets a path as kubelet would lay it out and a number that no inode has. What a process
says of itself (command line, environment) is not looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from gpuledger.agent.identity import pod_from_cgroup
from gpuledger.agent.process_reader import ProcessFacts, ProcessReader
from gpuledger.agent.tetragon.lines import Call
from gpuledger.contract.clock import NS_PER_S

FIRST_MADE_UP_ID: Final = 1 << 62
"""Ids from here on are of cgroups that were gone before anybody asked; inodes are far below."""
REMEMBERED: Final = 65_536  # processes, and cgroups; a busy node begins a few thousand a day
START_SLACK_NS: Final = NS_PER_S
"""By how much a start on the boot clock may differ from the same start that went through the wall clock."""


class Identity(NamedTuple):
    """``start_ns`` on the boot clock; ``cgroup_id`` 0 where nothing is known."""

    start_ns: int
    cgroup_id: int


class TetragonReader:
    """A `ProcessReader` over another one, which it owns; it knows the cgroups of those who are gone, too."""

    def __init__(self, living: ProcessReader) -> None:
        self._living = living
        self.tick_ns = living.tick_ns
        self._known: OrderedDict[str, Identity] = OrderedDict()
        self._path_of: OrderedDict[int, str] = OrderedDict()
        self._id_of: dict[str, int] = {}
        self._next_id = FIRST_MADE_UP_ID

    def identify(self, call: Call, exec_boot_ns: int) -> Identity:
        """Whose call it is; ``exec_boot_ns`` is its program's begin on the boot clock."""
        key = call.exec_id or f"{call.pid} {call.started_ns}"
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._find(call, exec_boot_ns)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return known

    def _find(self, call: Call, exec_boot_ns: int) -> Identity:
        facts = self._living.look(call.pid)
        if facts is not None and facts.start_ns <= exec_boot_ns + START_SLACK_NS:
            return Identity(facts.start_ns, facts.cgroup_id or self._made_up(call))
        return Identity(max(1, exec_boot_ns), self._made_up(call))

    def _made_up(self, call: Call) -> int:
        path = f"/kubepods/pod{call.pod_uid}/{call.container_id}"
        pod = pod_from_cgroup(path)
        if pod is None or pod.pod_uid != call.pod_uid:
            return 0
        if path not in self._id_of:
            self._id_of[path] = self._next_id
            self._path_of[self._next_id] = path
            self._next_id += 1
            if len(self._path_of) > REMEMBERED:
                del self._id_of[self._path_of.popitem(last=False)[1]]
        return self._id_of[path]

    def look(self, pid: int) -> ProcessFacts | None:
        """See ProcessReader.look."""
        return self._living.look(pid)

    def cgroup_path(self, cgroup_id: int) -> str | None:
        """See ProcessReader.cgroup_path."""
        if cgroup_id >= FIRST_MADE_UP_ID:
            return self._path_of.get(cgroup_id)
        return self._living.cgroup_path(cgroup_id)

    def watch(self, pid: int) -> None:
        """See ProcessReader.watch."""
        self._living.watch(pid)

    def libraries(self, pid: int) -> frozenset[tuple[int, int]]:
        """See ProcessReader.libraries."""
        return self._living.libraries(pid)

    def ended(self) -> list[int]:
        """See ProcessReader.ended."""
        return self._living.ended()

    def close(self) -> None:
        """See ProcessReader.close."""
        self._living.close()
