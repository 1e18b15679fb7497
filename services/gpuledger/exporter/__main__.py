"""``python -m gpuledger.exporter``: the same as ``gpuledger exporter``."""

from gpuledger.exporter.cli import app

app()
