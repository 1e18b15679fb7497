"""What the core charges for a window of an agent's records."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.attribution import NodeWindow, charge_window
from gpuledger.attribution.charges import Charges
from gpuledger.contract.headers import RecordHeaders
from gpuledger.contract.records import EventBatch, Holdings, SampleBatch
from gpuledger.contract.revision import CORE_VERSION, Revision
from gpuledger.pricing import Teams
from tests.support.agent import S
from tests.support.charging import prices

Told = tuple[RecordHeaders, EventBatch | SampleBatch | Holdings]


def starts_of(records: Sequence[Told]) -> list[int]:
    """When each window began whose last part is among the records."""
    return [headers.window_start_ns for headers, _ in records if headers.last]


def charges_of(records: Sequence[Told], start_ns: int) -> Charges:
    """The charges of the window of 10 s that begins there."""
    return charge_window(window_of(records, start_ns), prices(), Teams())


def window_of(records: Sequence[Told], start_ns: int) -> NodeWindow:
    """The window of 10 s that begins there, as a processor has it."""
    bodies = [body for headers, body in records if headers.window_start_ns == start_ns]
    return NodeWindow(
        "cluster",
        "node",
        start_ns,
        10 * S,
        Revision(0, len(bodies), 0, CORE_VERSION),
        holdings=[body for body in bodies if isinstance(body, Holdings)],
        events=[body for body in bodies if isinstance(body, EventBatch)],
        samples=[body for body in bodies if isinstance(body, SampleBatch)],
    )
