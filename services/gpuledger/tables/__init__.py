"""Tables that fit the terminal they are shown on."""

from gpuledger.tables.fit import fitted

__all__ = ["fitted"]
