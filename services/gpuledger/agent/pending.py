"""Processes that went out before the name of their pod was known, and the amendments that name them later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

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
    """Which processes each window told of as pending. It outlives an epoch. Owned by the agent's loop."""

    def __init__(self) -> None:
        self._windows: dict[int, dict[tuple[int, int], Process]] = {}

    def note(self, window_start_ns: int, processes: Iterable[Process]) -> None:
        """These processes went out in a record of that window, which is the newest."""
        for process in processes:
            key = process.pid, process.started_ns
            if process.pending:
                self._windows.setdefault(window_start_ns, {})[key] = process
            elif window_start_ns in self._windows:
                self._windows[window_start_ns].pop(key, None)  # the window names it itself

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
