"""``python -m gpuledger.sink``: the same as ``gpuledger sink``."""

import typer

from gpuledger.sink.cli import sink

typer.run(sink)
