"""The ledger as Prometheus metrics: money and GPU time by team and cluster, cached between scrapes."""

from gpuledger.exporter.families import Limits, families
from gpuledger.exporter.service import Exporter

__all__ = ["Exporter", "Limits", "families"]
