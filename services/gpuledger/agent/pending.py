"""Which pods a window has named and which not, and the amendments that name them later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from gpuledger.agent.consumers import POD
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.records import Pod, Process

KEEP_NS = 3600 * NS_PER_S  # a name that is not known after an hour belongs to a pod that nobody will tell of

FindPod = Callable[[str], Pod | None]
"""From a uid to the pod, where it is known."""
FindContainer = Callable[[str], str]
"""From a container's id to its name, empty where it is not known."""


class Amendment(NamedTuple):
    """The names of one window that became known after it had ended."""

    window_start_ns: int
    processes: list[Process]
    pods: list[Pod]


class PendingNames:
    """Which processes each window told of as pending, and whom the newest window has not named. It outlives
    an epoch. Owned by the agent's loop."""

    def __init__(self) -> None:
        self._windows: dict[int, dict[tuple[int, int], Process]] = {}
        self._newest = -1
        self._told: set[str] = set()  # pods that the newest window has named
        self._there: set[str] = set()  # pods whose processes it has told of

    def note(self, window_start_ns: int, processes: Iterable[Process], pods: Iterable[Pod] = ()) -> None:
        """These processes and names went out in a record of that window, which is the newest."""
        if window_start_ns != self._newest:
            self._newest, self._told, self._there = window_start_ns, set(), set()
        self._told.update(pod.uid for pod in pods)
        for process in processes:
            if process.consumer_kind == POD:
                self._there.add(process.consumer)
            key = process.pid, process.started_ns
            if process.pending:
                self._windows.setdefault(window_start_ns, {})[key] = process
            elif window_start_ns in self._windows:
                self._windows[window_start_ns].pop(key, None)  # the window names it itself

    def untold(self, window_start_ns: int) -> set[str]:
        """Pods whose processes that window told of and that no record of it has named."""
        return self._there - self._told if window_start_ns == self._newest else set()

    def take(self, open_window_ns: int, pod: FindPod, container: FindContainer) -> list[Amendment]:
        """What became known of windows before the open one, each name once."""
        found = []
        for window in sorted(self._windows):
            if window >= open_window_ns:
                break
            waiting = self._windows[window]
            named = {
                key: known for key, process in waiting.items() if (known := pod(process.consumer)) is not None
            }
            if named:
                processes = [
                    replace(waiting.pop(key), pending=False, container=container(process.container_id))
                    for key, process in list(waiting.items())
                    if key in named
                ]
                pods = {known.uid: known for known in named.values()}
                found.append(Amendment(window, processes, [pods[uid] for uid in sorted(pods)]))
            if not waiting or window < open_window_ns - KEEP_NS:
                del self._windows[window]
        return found
