"""How often the CUDA program calls what, and how much of everything it takes."""

from __future__ import annotations

ALLOCATIONS, COPIES_IN, COPIES_OUT, ADDS, SPINS, SYNCHRONISES, REFUSED = 7, 11, 5, 23, 13, 3, 2
VECTOR = 4099
BLOCK_THREADS = 256
COPY_BYTES = 4 * VECTOR
SPIN_NS = 500_000
TOO_MUCH = 1 << 50  # bytes; no device has them
LOAD_S, LOAD_KERNEL_NS, LOAD_AHEAD, LOAD_BLOCKS = 6.0, 10_000_000, 20, 1024
HELD_BYTES = 1 << 30
CHEAP_CALLS = 20_000
THREADS = 2
