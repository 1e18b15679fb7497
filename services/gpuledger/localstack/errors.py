"""What can go wrong with the local servers."""

from __future__ import annotations

from gpuledger.contract.errors import GpuledgerError


class StackError(GpuledgerError):
    """A local server could not be fetched or started; the message says what to do."""
