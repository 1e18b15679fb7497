"""What a process can ask of a GPU: the codes of the column ``operation`` of an EventBatch.

Codes are part of the wire contract: never renumber, only append. 1-99 the CUDA driver API, 100-199 the
NVIDIA driver's ioctl surface.
"""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """One kind of request; several symbols (``_v2``, ``_ptsz``, ``Ex``) share a code."""

    OTHER = 0
    # work for the compute engines
    LAUNCH_KERNEL = 1
    LAUNCH_COOPERATIVE = 2
    LAUNCH_GRAPH = 3
    LAUNCH_HOST_FUNCTION = 4
    UPLOAD_GRAPH = 5
    CAPTURE = 6
    """Whatever it is, it was recorded into a graph and did not run."""
    # device memory
    ALLOCATE_DEVICE = 10
    ALLOCATE_MANAGED = 11
    ALLOCATE_ASYNC = 12
    ALLOCATE_PHYSICAL = 13
    ALLOCATE_HOST = 14
    FREE_DEVICE = 15
    FREE_ASYNC = 16
    FREE_PHYSICAL = 17
    FREE_HOST = 18
    MAP_MEMORY = 19
    # copies
    COPY_HOST_TO_DEVICE = 20
    COPY_DEVICE_TO_HOST = 21
    COPY_DEVICE_TO_DEVICE = 22
    COPY_UNKNOWN = 23
    COPY_PEER = 24
    SET_MEMORY = 25
    COPY_HOST_TO_DEVICE_ASYNC = 26
    COPY_DEVICE_TO_HOST_ASYNC = 27
    COPY_DEVICE_TO_DEVICE_ASYNC = 28
    COPY_UNKNOWN_ASYNC = 29
    COPY_PEER_ASYNC = 30
    SET_MEMORY_ASYNC = 31
    DISCARD_ASYNC = 32
    DECOMPRESS_ASYNC = 33
    # waiting
    SYNCHRONIZE_STREAM = 40
    SYNCHRONIZE_CONTEXT = 41
    SYNCHRONIZE_EVENT = 42
    QUERY_STREAM = 43
    QUERY_EVENT = 44
    RECORD_EVENT = 45
    WAIT_EVENT = 46
    STREAM_VALUE = 47
    EXTERNAL_SEMAPHORE = 48
    # which device
    INITIALISE = 50
    CREATE_CONTEXT = 51
    RETAIN_PRIMARY_CONTEXT = 52
    SELECT_CONTEXT = 53
    PUSH_CONTEXT = 54
    POP_CONTEXT = 55
    DESTROY_CONTEXT = 56
    RELEASE_PRIMARY_CONTEXT = 57
    # the driver's ioctl surface
    IOCTL_OPEN = 100
    IOCTL_CLOSE = 101
    IOCTL_ALLOCATE = 102
    IOCTL_FREE = 103
    IOCTL_CONTROL = 104
    IOCTL_MAP_MEMORY = 105
    IOCTL_UVM_REGISTER_GPU = 106
    IOCTL_UVM_OTHER = 107
    IOCTL_OTHER = 108
    IOCTL_MMAP = 109


LAUNCHES = frozenset({Operation.LAUNCH_KERNEL, Operation.LAUNCH_COOPERATIVE, Operation.LAUNCH_GRAPH})
"""Operations that hand work to the compute engines."""

SYNCHRONIZING = frozenset(
    {
        Operation.SYNCHRONIZE_STREAM,
        Operation.SYNCHRONIZE_CONTEXT,
        Operation.SYNCHRONIZE_EVENT,
        Operation.COPY_DEVICE_TO_HOST,
        Operation.FREE_DEVICE,
    }
)
"""Operations whose return says that the earlier work of the calling process on that device is done.
A small copy to the device is staged and returns at once, so it is not one of them
(CUDA driver API reference, "API synchronization behavior")."""

QUERIES = frozenset({Operation.QUERY_STREAM, Operation.QUERY_EVENT})
"""Operations that ask whether earlier work is done; with result 0 it is."""

COPIES_H2D = frozenset({Operation.COPY_HOST_TO_DEVICE, Operation.COPY_HOST_TO_DEVICE_ASYNC})
COPIES_D2H = frozenset({Operation.COPY_DEVICE_TO_HOST, Operation.COPY_DEVICE_TO_HOST_ASYNC})
COPIES_D2D = frozenset(
    {
        Operation.COPY_DEVICE_TO_DEVICE,
        Operation.COPY_DEVICE_TO_DEVICE_ASYNC,
        Operation.COPY_PEER,
        Operation.COPY_PEER_ASYNC,
    }
)
ALLOCATIONS = frozenset(
    {
        Operation.ALLOCATE_DEVICE,
        Operation.ALLOCATE_ASYNC,
        Operation.ALLOCATE_PHYSICAL,
    }
)
"""Operations that make device memory resident. Managed memory can be paged out, so it is not counted
as resident."""
FREES = frozenset(
    {
        Operation.FREE_DEVICE,
        Operation.FREE_ASYNC,
        Operation.FREE_PHYSICAL,
        Operation.DESTROY_CONTEXT,
        Operation.RELEASE_PRIMARY_CONTEXT,
    }
)
"""Operations that give device memory back. A context's end does of what was allocated in it."""
