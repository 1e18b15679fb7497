"""Every metric of the agent, with its unit in the name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from gpuledger.agent.batches import BY_AGENT
from gpuledger.agent.rules import TALLY, Lost
from gpuledger.agent.spool import NodeQueue
from gpuledger.contract.records import EventBatch

REGISTRY = CollectorRegistry()


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"gpuledger_agent_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"gpuledger_agent_{name}", text, labels, registry=REGISTRY)


EVENTS = _counter("events", "CUDA calls taken from the kernel")
LATE_EVENTS = _gauge("late_events", "Calls of the epoch that came after their window had gone; restated so")
LOST_EVENTS = _gauge("lost_events", "Calls lost since the epoch began, by where", "where")
SAMPLES = _counter("samples", "Measurements of the silicon")
GAPS = _counter("sample_gaps", "Measurements that could not be had, by reason", "reason")
DCGM_SCRAPES = _counter("dcgm_scrapes", "Scrapes of dcgm-exporter, by what came of them", "outcome")
DCGM_SKIPPED_LINES = _counter("dcgm_skipped_lines", "Lines of dcgm-exporter that could not be read")
EXPORT_SKIPPED_LINES = _gauge("export_skipped_lines", "Lines of Tetragon's export that could not be read")
WINDOWS = _counter("windows", "Windows cut, the last part out")
WINDOW_DELAY = _gauge("window_delay_seconds", "From the last window's end to its last part in the queue")
EPOCHS = _counter("epochs", "Epochs begun")
CLOCK_ERROR = _gauge("clock_error_seconds", "Wall clock minus agent time")
PROCESSES = _gauge("processes", "Living processes known to use a GPU")
DEVICE_DOUBTS = _counter("device_doubts", "Processes whose devices are not certain, by reason", "reason")
MAPPINGS_LOST = _gauge("mappings_lost", "Executable mappings that the kernel could not tell at once")
DEVICES = _gauge("devices", "GPUs and MIG instances that answer; 0 while there is no driver")
LIBRARIES = _gauge("probed_libraries", "Library files that probes are attached to")
RUNTIME_CALLS = _gauge("runtime_calls", "Calls of the CUDA runtime since the start (--runtime)", "function")
RUNTIME_LOST = _gauge("runtime_lost", "Calls of the CUDA runtime that were not counted by name (--runtime)")
RUNTIME_LIBRARIES = _gauge("runtime_libraries", "Files of the CUDA runtime that are probed (--runtime)")
HOLDERS_OK = _gauge("holders_ok", "1 while the last read of the holders was good")
AMENDMENTS = _counter("amendments", "Windows amended because a pod's name became known after their end")
RECORDS_QUEUED = _counter("records_queued", "Records put into the queue", "record")
RECORDS_DELIVERED = _counter("records_delivered", "Records that Kafka has", "record")
RECORDS_REFUSED = _counter("records_refused", "Records that neither disk, memory nor broker took")
PUBLISH_ERRORS = _counter("publish_errors", "Times that the broker or the registry was away or refused")
QUEUE_RECORDS = _gauge("queue_records", "Records in memory that Kafka has not confirmed")
SPOOL_BYTES = _gauge("spool_bytes", "Bytes of the spool on disk")
SPOOL_DAMAGED_BYTES = _gauge("spool_damaged_bytes", "Bytes of the spool that could not be read again")
SPOOL_DISK_ERRORS = _gauge("spool_disk_errors", "Records that the disk did not take at once")
COARSENING = _gauge("coarsening", "The spool asks for: 0 raw calls, 1 tallies, 2 frames without calls")
COARSENED = _counter(
    "spool_coarsened_records", "Records made coarser while they waited, by what they became", "to"
)
COARSENED_CALLS = _counter("spool_lost_events", "Calls taken out of records while they waited")
COARSEN_SECONDS = _counter("spool_coarsening_seconds", "Processor time spent on making what waits coarser")
TALLIED_RECORDS = _counter("tallied_records", "Records of calls that say tallies, by whom", "by")
LOOP_SECONDS = _counter("loop_seconds", "Time that the agent's loop was at work")


def say_lost(lost: Lost, late_events: int) -> None:
    """What was lost since the epoch began, by where, and what came too late for its window."""
    for where, value in lost._asdict().items():
        LOST_EVENTS.labels(where).set(value)
    LATE_EVENTS.set(late_events)


def say_queue(queue: NodeQueue) -> None:
    """How much waits, and how its disk is."""
    QUEUE_RECORDS.set(queue.waiting)
    SPOOL_BYTES.set(queue.waiting_bytes)
    SPOOL_DAMAGED_BYTES.set(queue.damaged_bytes)
    SPOOL_DISK_ERRORS.set(queue.disk_errors)


def say_coarsened(coarseness: int, records: int, lost_calls: int) -> None:
    """Count what became coarser while it waited."""
    COARSENED.labels("tallies" if coarseness == TALLY else "frame").inc(records)
    COARSENED_CALLS.inc(lost_calls)


def say_tallied(batch: EventBatch) -> None:
    """Count the record once for each who tallied calls in it."""
    for by in set(batch.tallied_by.tolist()):
        TALLIED_RECORDS.labels("agent" if by == BY_AGENT else "kernel").inc()
