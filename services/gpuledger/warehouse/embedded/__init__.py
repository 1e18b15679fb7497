"""ClickHouse's engine in this process (chDB), behind ClickHouse's own HTTP protocol.

For the demo, the tests and small installations: the same clients, URLs and error codes as a ClickHouse
server, without one. One process serves one data path; ``kill -9`` loses nothing that was acknowledged to a
client. It is no ClickHouse cluster: no replication, no Kafka engine, no native protocol on port 9000.
"""

from gpuledger.warehouse.embedded.engine import DATABASE, Engine
from gpuledger.warehouse.embedded.serve import ServeOptions, serve

__all__ = ["DATABASE", "Engine", "ServeOptions", "serve"]
