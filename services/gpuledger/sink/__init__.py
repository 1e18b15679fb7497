"""gpu.charges to ClickHouse: sets replaced as a whole, offsets committed after the rows are in."""

from gpuledger.sink.service import SinkOptions, run
from gpuledger.sink.tables import Arrival

__all__ = ["Arrival", "SinkOptions", "run"]
