"""Probes on the driver library and, beside them, on the CUDA runtime (``--runtime``)."""

from __future__ import annotations

from pathlib import Path

from gpuledger.agent import metrics
from gpuledger.agent.probes.cudart import RuntimeCalls, RuntimeProbes
from gpuledger.agent.probes.loader import LoaderKind
from gpuledger.agent.probes.source import DEFAULT_TALLY_CALLS_PER_S, ProbeSource

PREFIX = "libcudart"
RELEASE_REFRESHES = 60  # a minute or so: a program that is started again and again finds its probes in place


class RuntimeSource(ProbeSource):
    """A `ProbeSource` that also counts calls of the runtime by name. Its events are a `ProbeSource`'s, to the
    last one: what a runtime function does is told by the driver's functions that it calls.

    The first calls of a process are missing where its copy of the runtime was not probed yet: it is found
    with the driver library, which the runtime loads in its first call.
    """

    def __init__(
        self,
        *,
        loader: LoaderKind = LoaderKind.AUTO,
        tally_calls_per_s: int | None = DEFAULT_TALLY_CALLS_PER_S,
        node_root: Path | None = None,
    ) -> None:
        super().__init__(loader=loader, tally_calls_per_s=tally_calls_per_s, node_root=node_root)
        self._runtime = RuntimeProbes()
        self._refreshes = 0

    def start(self) -> None:
        """See `EventSource`. Raises Unsupported also where the runtime can not be probed."""
        super().start()
        try:
            self._runtime.start()
        except BaseException:
            self.close()
            raise

    def preattach(self, path: str | Path) -> None:
        """See `EventSource`; a runtime library is told by its name."""
        if Path(path).name.startswith(PREFIX):
            self._runtime.attach(path)
        else:
            super().preattach(path)

    def refresh(self) -> int:
        """See `EventSource`; what it returns is of the driver library."""
        attached = super().refresh()
        self._refreshes += 1
        if self._refreshes % RELEASE_REFRESHES == 0:
            self._runtime.release()
        self.runtime_calls()
        for function, calls in self._runtime.totals.items():
            if calls:
                metrics.RUNTIME_CALLS.labels(function).set(calls)
        metrics.RUNTIME_LOST.set(self._runtime.lost())
        metrics.RUNTIME_LIBRARIES.set(self._runtime.libraries)
        return attached

    def runtime_calls(self) -> list[RuntimeCalls]:
        """See `RuntimeProbes.calls`."""
        return self._runtime.calls()

    def close(self) -> None:
        """See `EventSource`."""
        self._runtime.close()
        super().close()

    def _attach_seen(self) -> int:
        self._runtime.look({mapping.pid for mapping in self._seen})
        return super()._attach_seen()
