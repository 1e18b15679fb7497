"""``python -m gpuledger.notify``: the same as ``gpuledger notify``."""

from gpuledger.notify.cli import app

app()
