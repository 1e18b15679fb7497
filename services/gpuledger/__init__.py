"""gpuledger: who used the GPUs of a fleet, how much, how well, and what that cost."""

__version__ = "0.1.0"
