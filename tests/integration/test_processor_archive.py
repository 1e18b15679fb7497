"""What Kafka's retention took, a worker takes from the archive: late records reopen windows all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from gpuledger.archive.archiver import Archiver
from gpuledger.archive.log import IDENTITY
from gpuledger.archive.store import Directory
from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract import topics
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import Refused
from gpuledger.contract.identity import NodeKey
from gpuledger.processor.protocol import WindowTask
from gpuledger.processor.window_inputs import inputs_of
from tests.support.fleet import WINDOW_NS, Node, Sender, ledger, read_all, recent_start
from tests.support.processors import Workers
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("priced")


def delete_all(bus: BusSettings) -> None:
    """As retention does."""
    with PartitionReader(bus, "test") as reader:
        _, end = reader.bounds(topics.TELEMETRY, 0)
    admin = AdminClient(dict(bus.client_config()))
    for deleted in admin.delete_records([TopicPartition(topics.TELEMETRY, 0, end)]).values():
        deleted.result(PATIENCE_S)


def archive(bus: BusSettings, store: Directory) -> None:
    archiver = Archiver(bus, store, SystemClock())
    archiver.run(lambda: False, once=True)
    archiver.close()


def test_a_late_record_reopens_a_window_whose_inputs_only_the_archive_has(
    own_bus: BusSettings,
    sender: Sender,
    workers: Workers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Directory(tmp_path / "archive")
    monkeypatch.setenv("GPULEDGER_ARCHIVE_URL", store.url)
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    life = (start, start + 3 * WINDOW_NS)
    sender.lifetime(node.lifetime(*life))
    windows = [node.window(start + i * WINDOW_NS) for i in range(3)]
    late = [windows[0].pop(1), windows[1].pop(1)]
    for records in windows:
        sender.telemetry(records)
    workers.start()
    workers.await_that(lambda: workers.committed(0) == 7, PATIENCE_S, "acknowledged")
    assert ledger(own_bus).sets[node.key, start].state == "incomplete"
    archive(own_bus, store)
    delete_all(own_bus)
    sender.telemetry(late[:1])
    workers.await_that(lambda: workers.committed(0) == 8, PATIENCE_S, "the late one is acknowledged")
    found = ledger(own_bus).sets[node.key, start]
    assert (found.state, found.inputs) == ("complete", 3)
    assert (found.offset_starts.tolist(), found.offset_counts.tolist()) == ([0, 7], [2, 1])
    # the record that came late is in no archive yet, and need not be
    sender.telemetry(late[1:])
    workers.await_that(lambda: workers.committed(0) == 9, PATIENCE_S, "the next is acknowledged")
    found = ledger(own_bus).sets[node.key, start + WINDOW_NS]
    assert (found.state, found.inputs) == ("complete", 3)
    assert read_all(own_bus, topics.DEAD_LETTERS) == []


def test_the_archive_of_another_kafka_is_refused(
    own_bus: BusSettings, sender: Sender, tmp_path: Path
) -> None:
    start, node = recent_start(30), Node(NodeKey("c", "n"))
    sender.telemetry(node.window(start))
    store = Directory(tmp_path / "archive")
    archive(own_bus, store)
    delete_all(own_bus)
    task = WindowTask(node.key, start, (), (0, 2))
    with PartitionReader(own_bus, "test") as reader:
        inputs = inputs_of(reader, store.url)
        assert [record.offset for record in inputs.read(0, [task])] == [0, 1, 2]
        theirs = store.get(IDENTITY).replace(reader.cluster_id().encode(), b"another")
        store.put(IDENTITY, theirs)
        with pytest.raises(Refused, match="of Kafka cluster another"):
            list(inputs_of(reader, store.url).read(0, [task]))
