"""``python -m gpuledger.warehouse``: the same as ``gpuledger warehouse``."""

from gpuledger.warehouse.cli import warehouse_app

warehouse_app()
