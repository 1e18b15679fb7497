"""What there is to say of one probed function: which program runs at its entry, where its arguments lie, and
what it changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gpuledger.contract.operations import Operation


class Effect(IntEnum):
    """What a successful call changes in the state that the kernel side keeps."""

    NONE = 0
    ALLOCATE = 1
    ALLOCATE_PITCHED = 2
    ALLOCATE_PHYSICAL = 3
    FREE = 4
    CREATE_CONTEXT = 5
    CREATE_GREEN = 6
    """It retains the primary context of its device."""
    SELECT_CONTEXT = 7
    PUSH_CONTEXT = 8
    POP_CONTEXT = 9
    CONVERT_CONTEXT = 10
    """Gives the context of a green context, the ``function``."""
    DESTROY_CONTEXT = 11
    DESTROY_GREEN = 12
    RETAIN_PRIMARY = 13
    RELEASE_PRIMARY = 14
    RESET_PRIMARY = 15
    QUERY = 16
    """Asks whether work is done: "not ready" is counted, not recorded."""
    READ_UUID = 17
    RETAIN_PHYSICAL = 18
    BEGIN_CAPTURE = 19
    END_CAPTURE = 20
    """At the entry already, and whether it succeeds or not. Also where the stream itself ends."""
    RECORD_EVENT = 21
    AWAIT_EVENT = 22
    MAP = 23
    """Physical memory, whose handle is the fourth argument, to ``bytes`` at ``pointer``."""
    UNMAP = 24


SILENT: Final = frozenset(
    {Effect.READ_UUID, Effect.RETAIN_PHYSICAL, Effect.BEGIN_CAPTURE, Effect.END_CAPTURE}
)
"""They ask nothing of a device: what they tell is kept, no record is made."""


class Space(IntEnum):
    """Where an allocation's handle is unique; handles of different spaces may be equal numbers."""

    DEVICE = 0
    PHYSICAL = 1
    HOST = 2


class Entry(IntEnum):
    """The program that runs at the entry of a function."""

    CALL = 0
    LAUNCH = 1
    LAUNCH_CONFIG = 2
    LAUNCH_LIST = 3
    COPY_REGION = 4
    COPY_BATCH = 5
    COPY_REGIONS = 6


ENTRY_PROGRAMS: Final = {
    Entry.CALL: "enter_call",
    Entry.LAUNCH: "enter_launch",
    Entry.LAUNCH_CONFIG: "enter_launch_config",
    Entry.LAUNCH_LIST: "enter_launch_list",
    Entry.COPY_REGION: "enter_copy_region",
    Entry.COPY_BATCH: "enter_copy_batch",
    Entry.COPY_REGIONS: "enter_copy_regions",
}
RETURN_PROGRAM: Final = "leave"


@dataclass(frozen=True, slots=True)
class Symbol:
    """One exported function: numbers are argument numbers, ``scale`` the shift from elements to bytes.

    ``rows`` multiplies ``bytes``. For `Entry.COPY_BATCH` and `Entry.COPY_REGIONS` ``bytes`` is the list and
    ``rows`` its length, 0 where it is one; a batch with ``dimensions`` is a list of CUmemDecompressParams.
    """

    name: str
    operation: Operation
    entry: Entry = Entry.CALL
    effect: Effect = Effect.NONE
    bytes: int = 0
    scale: int = 0
    rows: int = 0
    pointer: int = 0
    stream: int = 0
    device: int = 0
    function: int = 0
    resident: bool = False
    space: Space = Space.DEVICE
    dimensions: int = 0

    @property
    def per_thread(self) -> bool:
        """Whether no stream means the default stream that each thread has of its own."""
        return self.name.endswith("_ptsz")
