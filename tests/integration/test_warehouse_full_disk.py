"""The embedded server on a full disk: what it says is written is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from gpuledger.contract.errors import WarehouseUnavailable
from gpuledger.warehouse import connect
from gpuledger.warehouse.embedded.process import EmbeddedWarehouse
from tests.chaos.disks import Disk

DISK_BYTES = 64 << 20


def test_an_insert_that_had_no_room_is_refused_and_can_be_repeated_once_there_is(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", DISK_BYTES)
    is_small = disk.mount()  # else this process may mount none: then nothing is full
    server = EmbeddedWarehouse(disk.directory / "data").start()
    try:
        warehouse = connect(server.url)
        list(warehouse.rows("CREATE TABLE room (k UInt64) ENGINE = ReplacingMergeTree ORDER BY k", {}))
        rows = pa.table({"k": pa.array([7], pa.uint64())})
        if is_small:
            disk.fill()
            with pytest.raises(WarehouseUnavailable, match="not enough space"):
                warehouse.insert_arrow("room", rows, "a")
            disk.free()
        warehouse.insert_arrow("room", rows, "a")
        assert [tuple(row) for row in warehouse.rows("SELECT k FROM room", {})] == [(7,)]
        warehouse.close()
    finally:
        server.stop()
        disk.unmount()
