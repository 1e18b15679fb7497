"""Records of gpu.telemetry on their way to the owner of their partition."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from gpuledger.bus import Incoming, PartitionReader
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.identity import Epoch, NodeKey
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor import metrics
from gpuledger.processor.letters import Letters, because
from gpuledger.processor.ownership import Ownership
from gpuledger.processor.protocol import OffsetGap, PartitionOwner, Reading
from gpuledger.processor.reading import log_record, placed_headers
from gpuledger.processor.settings import ProcessorSettings

_log = structlog.get_logger(__name__)


class Intake:
    """Checks what headers and place say, and hands records to their owners. Owned by the engine's thread."""

    def __init__(self, reader: PartitionReader, letters: Letters, settings: ProcessorSettings) -> None:
        self._reader = reader
        self._letters = letters
        self._settings = settings
        self._partitions = 0  # of gpu.telemetry; never changed
        self._epochs: dict[NodeKey, Epoch] = {}  # the latest one read of each node

    def count_partitions(self) -> None:
        """Learn how many partitions there are, once."""
        self._partitions = self._partitions or self._reader.partitions(TELEMETRY)

    def feed(self, records: Sequence[Incoming], owned: dict[int, Ownership]) -> set[int]:
        """Read the next records of the partitions owned.

        Returns the partitions where lives may have been stated anew: an agent states the life before it
        begins an epoch, and the end before it says goodbye.
        """
        refused: list[tuple[Incoming, BadRecord]] = []
        stated: set[int] = set()
        for record in records:
            ownership = owned.get(record.partition)
            if ownership is not None and self._read(ownership, record, refused):
                stated.add(record.partition)
        metrics.RECORDS_READ.inc(len(records))
        self._letters.bury(refused)
        return stated

    def skip_marks(self, owner: PartitionOwner, end: int) -> bool:
        """Pass over the offsets before ``end`` where no record has any of them; whether that is so.

        Nobody of ours writes in transactions here, but the marks of whoever does have offsets.
        """
        for _ in self._reader.read_range(TELEMETRY, owner.partition, owner.position, end - 1):
            return False
        _log.warning("offsets without a record", partition=owner.partition, first=owner.position, end=end)
        owner.skip_to(end)
        return True

    def skip_lost(self, owner: PartitionOwner) -> None:
        """Pass over what retention took before it was read, and tell it."""
        low, _ = self._reader.bounds(TELEMETRY, owner.partition)
        if low > owner.position:
            self._letters.lost(owner.partition, owner.position, low)
            owner.skip_to(low)

    def _read(
        self, ownership: Ownership, record: Incoming, refused: list[tuple[Incoming, BadRecord]]
    ) -> bool:
        """Whether the node's life may have been stated anew."""
        owner = ownership.owner
        if record.offset > owner.position:
            self._skip(owner, record.offset)
        if record.offset < owner.position:
            return False
        try:
            headers = placed_headers(record, self._partitions, self._settings.grid)
        except BadRecord as error:
            owner.pass_over(record.offset)
            refused.append((record, error))
            return False
        reading = owner.read(log_record(record, headers))
        if reading is Reading.HELD:
            ownership.held[record.offset] = (record, headers)
        elif reading is not Reading.REPEATED:
            refused.append((record, because(reading.value)))
        node = headers.id.node_key
        begins = headers.id.epoch != self._epochs.get(node)
        self._epochs[node] = headers.id.epoch
        return begins or headers.goodbye

    def _skip(self, owner: PartitionOwner, offset: int) -> None:
        self.skip_lost(owner)
        if offset > owner.position and not self.skip_marks(owner, offset):
            raise OffsetGap(f"partition {owner.partition}: {offset} came where {owner.position} was expected")
