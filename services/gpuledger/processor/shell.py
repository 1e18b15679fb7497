"""A Faust worker around work that has a thread of its own; what that finishes, it commits.

Faust's own acknowledging is off (``acks=False``) and offsets are committed here, explicitly, since Faust
0.15 commits past records that are held in two ways: its gap check is skipped where nothing is committed yet
or where one record is held at the head, and messages of an earlier assignment that it skips count as
acknowledged in the new one. The work returns one offset a partition below which everything is finished;
nothing else is ever committed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import faust
import structlog
from faust.types import TP

from gpuledger.bus import BusSettings, Incoming
from gpuledger.bus.membership import Membership
from gpuledger.contract.clock import SystemClock
from gpuledger.processor.taking import Taking
from gpuledger.serving.watch import Watch

FETCH_BYTES = 4 << 20  # of a partition in one request: some fifty columnar batches
STREAM_RECORDS = 16  # between the fetched records and those taken, which have bounds of their own
HEARTBEATS_A_SESSION = 6
# A broker that has just come back may not know the topic yet. Faust's leader then gives nobody a partition,
# and looks again only when its metadata is this old: by default in 5 minutes.
METADATA_AGE_S = 5.0
TICK_S = 0.5  # how often it is looked whether a mark is due
CLOSE_TIMEOUT_S = 10.0
T = TypeVar("T")
_log = structlog.get_logger(__name__)


class Work(Protocol):
    """What is done with records. Made, used and closed in one thread of the shell's, but for ``supersede``.

    ``feed`` and ``tick`` return the offset of each partition below which everything is finished.
    """

    def supersede(self, assignment: int) -> None:
        """The partitions were assigned anew; from any thread. Work of an earlier assignment stops early."""

    def assign(self, assignment: int, places: Sequence[TP]) -> None:
        """Own these partitions and no others."""

    def feed(self, assignment: int, records: Sequence[Incoming]) -> Mapping[TP, int]:
        """Take the next records of the partitions owned, and do all that has become due."""

    def tick(self, assignment: int) -> Mapping[TP, int]:
        """Do all that has become due."""

    def close(self) -> None:
        """Let go of everything."""


class Shell:
    """Between Faust's loop and the work's thread: one call at a time, of the present assignment only."""

    def __init__(self, app: Any, make_engine: Callable[[], Work]) -> None:
        self._app = app
        self._make_engine = make_engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._engine: Work | None = None
        self._lock = asyncio.Lock()
        self._closed = False
        self._assignment = 0  # counts every change
        self._assigned = 0  # the one that the engine was told of
        self._generation: int | None = None
        self._places: list[TP] = []

    @property
    def owned(self) -> int:
        """How many partitions are ours."""
        return len(self._places)

    def revoked(self) -> None:
        """The partitions leave; what is under way on them is abandoned."""
        self._change(None, [])

    def assigned(self, places: Sequence[TP]) -> None:
        """These partitions are ours from now on, and no others."""
        self._change(self._app.consumer_generation_id, list(places))

    async def feed(self, events: Sequence[Any]) -> None:
        """Hand records to the engine and commit what it returns."""
        async with self._lock:
            if self._closed:
                return
            engine = await self._ready()
            # what was buffered before the latest assignment comes again
            records = [
                _incoming(event.message)
                for event in events
                if event.message.generation_id == self._generation
            ]
            await self._commit(self._assignment, await self._call(engine.feed, self._assignment, records))

    async def tick(self) -> None:
        """Let the engine do what is due without any record."""
        async with self._lock:
            if self._closed:
                return
            engine = await self._ready()
            await self._commit(self._assignment, await self._call(engine.tick, self._assignment))

    async def close(self) -> None:
        """Stop the engine; what is under way is abandoned."""
        self.revoked()
        self._closed = True  # Faust lets its tasks run on for a while
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S), self._lock:
                if self._engine is not None:
                    await self._call(self._engine.close)
                    self._engine = None
        except TimeoutError:
            _log.warning("the engine did not stop in time")
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _ready(self) -> Work:
        if self._engine is None:
            self._engine = await self._call(self._make_engine)
            self._engine.supersede(self._assignment)
        while self._assigned != self._assignment:
            assignment, places = self._assignment, self._places
            await self._call(self._engine.assign, assignment, places)
            self._assigned = assignment
        return self._engine

    async def _commit(self, assignment: int, finished: Mapping[TP, int]) -> None:
        if finished and assignment == self._assignment:
            await self._app.consumer._commit(dict(finished))

    async def _call(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _change(self, generation: int | None, places: list[TP]) -> None:
        self._assignment += 1
        self._generation, self._places = generation, places
        if self._engine is not None:
            self._engine.supersede(self._assignment)


class Settings(Protocol):
    """What the shell must be told."""

    application: str
    session_timeout_s: float
    data_directory: Path
    take_records: int
    take_bytes: int
    take_within_s: float


def faust_app(
    bus: BusSettings, settings: Settings, topics: Sequence[str], make_work: Callable[[], Work], watch: Watch
) -> faust.App:
    """An application over topics; run it with ``Worker``. Any error that is not a record's stops it.

    ``watch`` also looks whether it owns nothing though partitions are nobody's.
    """
    app = faust.App(
        settings.application,
        broker=[f"kafka://{host.strip()}" for host in bus.kafka_bootstrap.split(",")],
        broker_credentials=_credentials(bus),
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / HEARTBEATS_A_SESSION,
        broker_rebalance_timeout=settings.session_timeout_s,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=FETCH_BYTES,
        consumer_metadata_max_age_ms=round(METADATA_AGE_S * 1000),
        agent_supervisor="mode.supervisors.CrashingSupervisor",
        datadir=settings.data_directory,
        store="memory://",
        stream_buffer_maxsize=STREAM_RECORDS,
        stream_wait_empty=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    shell = Shell(app, make_work)
    membership = Membership(bus, settings.application, topics, SystemClock())
    watch.also(lambda: membership.heed(shell.owned))
    taking = Taking(settings.take_records, settings.take_bytes, settings.take_within_s)

    async def process(stream: Any) -> None:
        stream.enable_acks = False
        async for event in stream.events():
            await taking.put(event)

    async def hand_over() -> None:
        while not app.should_stop:
            await crashing(shell.feed, await taking.take())

    async def keep_time() -> None:
        while not app.should_stop:
            await app.sleep(TICK_S)
            await crashing(shell.tick)

    async def crashing(work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        try:
            await work(*arguments)
        except Exception as error:
            await app.crash(error)
            raise

    async def on_assigned(sender: Any, assigned: set[TP], **_: Any) -> None:
        shell.assigned([tp for tp in assigned if tp.topic in topics])

    async def on_revoked(sender: Any, revoked: set[TP], **_: Any) -> None:
        shell.revoked()

    async def on_shutdown(sender: Any, **_: Any) -> None:
        await shell.close()

    for name in topics:
        topic = app.topic(
            name,
            key_type=bytes,
            key_serializer="raw",
            value_type=bytes,
            value_serializer="raw",
            acks=False,
        )
        app.agent(topic, concurrency=1, name=f"process {name}")(process)
    app.task(hand_over)
    app.task(keep_time)
    app.on_partitions_assigned.connect(on_assigned, weak=False)
    app.on_partitions_revoked.connect(on_revoked, weak=False)
    app.on_before_shutdown.connect(on_shutdown, weak=False)
    return app


def _credentials(bus: BusSettings) -> Any:
    """Faust's form of how to get into the cluster; None for PLAINTEXT."""
    protocol = bus.kafka_security_protocol
    if protocol == "PLAINTEXT":
        return None
    context = None
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(
            cafile=str(bus.kafka_tls_ca_file) if bus.kafka_tls_ca_file is not None else None
        )
        if bus.kafka_tls_cert_file is not None:
            context.load_cert_chain(bus.kafka_tls_cert_file, bus.kafka_tls_key_file)
    if not protocol.startswith("SASL_"):
        return faust.SSLCredentials(context=context)
    password = bus.kafka_password()
    return faust.SASLCredentials(
        mechanism=bus.kafka_sasl_mechanism,
        username=bus.kafka_sasl_username,
        password=password.get_secret_value() if password is not None else None,
        ssl_context=context,
    )


def _incoming(message: Any) -> Incoming:
    headers = message.headers or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Incoming(
        message.topic,
        message.partition,
        message.offset,
        round(message.timestamp * 1000),
        message.key,
        message.value,
        tuple(pairs),
    )
