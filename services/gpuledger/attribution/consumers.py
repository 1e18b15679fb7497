"""Who is on a node in a window: pods and processes, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuledger.attribution.timeline import Records
from gpuledger.contract.records import Pod, Process
from gpuledger.contract.rows import POOL

POD = "pod"


class ConsumerKey(NamedTuple):
    """A consumer: a pod, a process outside Kubernetes, or the pool."""

    kind: str
    consumer: str


THE_POOL = ConsumerKey(POOL, "")


@dataclass(slots=True)
class People:
    """The processes of a window by number, and the pods by uid.

    A process is (pid, start); its number is its place in the order of the records. Where records disagree
    (a name became known) the one that is not pending holds, then the last.
    """

    processes: list[Process] = field(default_factory=list)
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    _consumers: dict[int, tuple[Process, ConsumerKey]] = field(default_factory=dict)
    _latest: Sequence[Process] = ()
    _looked: tuple[Sequence[Process], list[int]] = ((), [])

    def add(self, processes: Sequence[Process]) -> None:
        """What one more record says."""
        if processes is self._latest:
            return
        for process in processes:
            key = (process.pid, process.started_ns)
            number = self.numbers.setdefault(key, len(self.processes))
            if number == len(self.processes):
                self.processes.append(process)
            else:
                self.processes[number] = _better(self.processes[number], process)
        self._latest = processes

    def numbers_of(self, processes: Sequence[Process]) -> list[int]:
        """Numbers of the processes of a record that was added."""
        if processes is not self._looked[0]:
            numbers = [self.numbers[process.pid, process.started_ns] for process in processes]
            self._looked = processes, numbers
        return self._looked[1]

    def consumer(self, number: int) -> ConsumerKey:
        """The consumer that a process belongs to."""
        process = self.processes[number]
        known = self._consumers.get(number)
        if known is not None and known[0] is process:
            return known[1]
        kind = process.consumer_kind or "host_process"
        key = ConsumerKey(kind, process.consumer or f"{process.pid}:{process.started_ns}")
        self._consumers[number] = process, key
        return key


def _better(one: Process, other: Process) -> Process:
    chosen = one if other.pending and not one.pending else other
    rest = other if chosen is one else one
    if chosen.ended_ns is None and rest.ended_ns is not None:
        return Process(
            **{name: getattr(chosen, name) for name in Process.__slots__} | {"ended_ns": rest.ended_ns}
        )
    if rest.container and not chosen.container:
        return Process(
            **{name: getattr(chosen, name) for name in Process.__slots__} | {"container": rest.container}
        )
    return chosen


def people_of(records: Records) -> People:
    """Everyone whom the records of a window name. A pod is taken as the first record shows it, since a
    label decides by its value at the consumer's first instant in the window; a later record fills in what
    was not known."""
    people = People()
    for state in records.holdings:
        people.add(state.processes)
        for pod in state.pods:
            known = people.pods.get(pod.uid)
            if known is None or (not known.name and pod.name):
                people.pods[pod.uid] = pod
    for events in records.events:
        people.add(events.processes)
    for samples in records.samples:
        people.add(samples.processes)
    return people
