"""Which pods a window has named and which not, and the amendments that name them later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from gpuledger.agent.consumers import POD
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.records import Pod, Process

KEEP_NS = 3600 * NS_PER_S  # a name that is not known after an hour belongs to a pod that nobody will tell of

MAX_WAITING = 8192
"""Processes, some 5 MB; the first go first. Of an hour it is two a second whose pods nobody ever tells of."""

FindPod = Callable[[str], Pod | None]
"""From a uid to the pod, where it is known."""
FindContainer = Callable[[str], str]
"""From a container's id to its name, empty where it is not known."""


_Key: TypeAlias = tuple[int, int, str]
"""pid, start and consumer of a process."""


class Amendment(NamedTuple):
    """The names of one window that became known after it had ended."""

    window_start_ns: int
    processes: list[Process]
    pods: list[Pod]


class PendingNames:
    """Which processes each window told of as pending, and whom the newest window has not named. It outlives
    an epoch. Owned by the agent's loop."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, dict[int, Process]] = {}  # of each process what each window said of it
        self._newest = -1
        self._told: set[str] = set()  # pods that the newest window has named
        self._there: set[str] = set()  # pods whose processes it has told of

    def __len__(self) -> int:
        return len(self._waiting)

    def note(self, window_start_ns: int, processes: Iterable[Process], pods: Iterable[Pod] = ()) -> None:
        """These processes and names went out in a record of that window, which is the newest."""
        if window_start_ns != self._newest:
            self._newest, self._told, self._there = window_start_ns, set(), set()
        self._told.update(pod.uid for pod in pods)
        for process in processes:
            if process.consumer_kind == POD:
                self._there.add(process.consumer)
            key = process.pid, process.started_ns, process.consumer
            if process.pending:
                self._wait(key, window_start_ns, process)
            elif key in self._waiting:
                self._waiting[key].pop(window_start_ns, None)  # the window names it itself

    def _wait(self, key: _Key, window_start_ns: int, process: Process) -> None:
        said = self._waiting.setdefault(key, {})
        before = next(reversed(said.values()), process)
        said[window_start_ns] = before if before == process else process  # windows mostly say the same
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def untold(self, window_start_ns: int) -> set[str]:
        """Pods whose processes that window told of and that no record of it has named."""
        return self._there - self._told if window_start_ns == self._newest else set()

    def take(self, open_window_ns: int, pod: FindPod, container: FindContainer) -> list[Amendment]:
        """What became known of windows before the open one, each name once. Looks through all that wait:
        call it when a window was opened, or names have changed."""
        found: dict[int, Amendment] = {}
        for key, said in list(self._waiting.items()):
            named = pod(key[2])
            for window in [window for window in said if window < open_window_ns]:
                if named is not None:
                    amendment = found.setdefault(window, Amendment(window, [], []))
                    name = container(said[window].container_id)
                    amendment.processes.append(replace(said.pop(window), pending=False, container=name))
                    if named not in amendment.pods:
                        amendment.pods.append(named)
                elif window < open_window_ns - KEEP_NS:
                    del said[window]
            if not said:
                del self._waiting[key]
        for amendment in found.values():
            amendment.pods.sort(key=lambda one: one.uid)
        return [found[window] for window in sorted(found)]
