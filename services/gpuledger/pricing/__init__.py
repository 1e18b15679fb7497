"""Prices and teams: pure, effective-dated, exact.

``Prices`` and ``Teams`` hold every version of their document; ``.at(window_start_ns)`` gives the
``PriceBook`` and the ``TeamMap`` that hold for a window. The YAML side is
``gpuledger.pricing.yaml_documents``.
"""

from gpuledger.pricing.book import Cost, PriceBook, entry_match, precedence
from gpuledger.pricing.devices import MATCH_FIELDS, NON_GPU, PricedDevice
from gpuledger.pricing.teams import HOST_TEAM, POOL_TEAM, Consumer, Team, TeamMap
from gpuledger.pricing.timeline import PricePiece
from gpuledger.pricing.versions import Prices, Teams

__all__ = [
    "HOST_TEAM",
    "MATCH_FIELDS",
    "NON_GPU",
    "POOL_TEAM",
    "Consumer",
    "Cost",
    "PriceBook",
    "PricePiece",
    "PricedDevice",
    "Prices",
    "Team",
    "TeamMap",
    "Teams",
    "entry_match",
    "precedence",
]
