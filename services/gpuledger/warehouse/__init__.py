"""The ledger in ClickHouse: tables and views, connections, named queries, the embedded server.

Only this package and ``sink`` know ClickHouse's error codes; everybody else sees gpuledger's errors.
"""

from gpuledger.warehouse.client import DEFAULT_URL, Warehouse, WarehouseUrl, connect, parse_url
from gpuledger.warehouse.migrations import Migration, migrate, missing
from gpuledger.warehouse.queries import NAMED, Grain, NamedQuery, period

__all__ = [
    "DEFAULT_URL",
    "NAMED",
    "Grain",
    "Migration",
    "NamedQuery",
    "Warehouse",
    "WarehouseUrl",
    "connect",
    "migrate",
    "missing",
    "parse_url",
    "period",
]
