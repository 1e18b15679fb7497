"""A member of a group that owns nothing: whether that is right, and for how long it has not been.

A member that the group has forgotten, or whom its leader gave nothing for want of metadata, reads nothing and
says nothing. The group's coordinator knows whether partitions are nobody's; it is asked only by those who
own nothing for a while.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from gpuledger.bus.access import BusAccess
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, typed
from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import GpuledgerError, KafkaUnavailable, NoTopic
from gpuledger.logs import EventLog

LOOK_AFTER_S = 60  # of owning nothing: a group hands over within a session, 45 s
ASK_EVERY_S = 10
NOBODYS_WITHIN_S = 60  # partitions that a settled group leaves to nobody are a fault, not a moment
SETTLES_WITHIN_S = 360  # a rebalance waits for members that do not poll: max.poll.interval, 300 s
ASK_TIMEOUT_S = 10.0

Place = tuple[str, int]
"""Topic and partition."""

log = EventLog("gpuledger.bus")


@dataclass(frozen=True)
class Group:
    """What the coordinator says of a group: its state, how many members, and what these own."""

    state: ConsumerGroupState
    members: int
    owned: frozenset[Place]

    def patience_s(self, wanted: Collection[Place]) -> int | None:
        """How long a member may own nothing of ``wanted`` as it is now; None: for ever, others own it all."""
        if self.state in (
            ConsumerGroupState.PREPARING_REBALANCING,
            ConsumerGroupState.COMPLETING_REBALANCING,
        ):
            return SETTLES_WITHIN_S
        if self.state is ConsumerGroupState.STABLE and self.owned.issuperset(wanted):
            return None
        return NOBODYS_WITHIN_S


class Coordinator:
    """Asks for a group and for the partitions of topics. Raises KafkaUnavailable, ConfigError."""

    def __init__(self, settings: BusAccess, group: str) -> None:
        self._client = AdminClient(
            dict(settings.client_config()),
            logger=KAFKA_LOGGER,
        )
        self._group = group

    def group(self) -> Group:
        """The group as it is now."""
        try:
            asked = self._client.describe_consumer_groups([self._group], request_timeout=ASK_TIMEOUT_S)
            found = asked[self._group].result(ASK_TIMEOUT_S * 2)
        except KafkaException as error:
            raise typed(error, f"describing group {self._group}") from error
        except TimeoutError as error:
            raise KafkaUnavailable(f"describing group {self._group}: no answer") from error
        owned = frozenset(
            (place.topic, place.partition)
            for member in found.members
            for place in (member.assignment.topic_partitions if member.assignment else [])
        )
        return Group(found.state, len(found.members), owned)

    def places(self, topics: Collection[str]) -> frozenset[Place]:
        """Every partition of these topics."""
        try:
            known = self._client.list_topics(timeout=ASK_TIMEOUT_S).topics
        except KafkaException as error:
            raise typed(error, "listing topics") from error
        if missing := [name for name in topics if name not in known or known[name].error is not None]:
            raise NoTopic(f"no topic {missing[0]}; `gpuledger topics apply` creates the topics")
        return frozenset((name, number) for name in topics for number in known[name].partitions)


class Membership:
    """Heeds how much a member owns. Used by one thread at a time.

    Each member has one, and calls ``heed`` at each of its steps; it asks, and so waits, only where nothing
    has been owned for a minute.
    """

    def __init__(self, settings: BusAccess, group: str, topics: Collection[str], clock: Clock) -> None:
        self._settings = settings
        self._group = group
        self._topics = tuple(topics)
        self._clock = clock
        self._coordinator: Coordinator | None = None
        self._nothing_since_ns: int | None = None
        self._wrong_since_ns: int | None = None
        self._asked_ns = 0

    def heed(self, owned: int | None) -> None:
        """Note that so many partitions are owned now; None: it is about to leave, or has left.

        Raises KafkaUnavailable where nothing has been for too long though partitions are nobody's: this
        member is of no use any more, and who starts it anew mends it.
        """
        now_ns = self._clock.boot_ns()
        if owned is None or owned:
            self._nothing_since_ns = self._wrong_since_ns = None
            return
        if self._nothing_since_ns is None:
            self._nothing_since_ns = now_ns
        if now_ns - self._nothing_since_ns < LOOK_AFTER_S * NS_PER_S:
            return
        if now_ns - self._asked_ns >= ASK_EVERY_S * NS_PER_S:
            self._ask(now_ns)
            self._asked_ns = self._clock.boot_ns()

    def _ask(self, now_ns: int) -> None:
        try:
            self._coordinator = self._coordinator or Coordinator(self._settings, self._group)
            group, wanted = self._coordinator.group(), self._coordinator.places(self._topics)
        except GpuledgerError as error:  # it owns nothing because there is nothing to be had
            log.warning("owns nothing, and nobody tells why", group=self._group, why=str(error))
            self._wrong_since_ns = None
            return
        patience_s = group.patience_s(wanted)
        if patience_s is None:
            self._wrong_since_ns = None
            return
        if self._wrong_since_ns is None:
            self._wrong_since_ns = now_ns
            log.warning(
                "owns nothing though partitions are nobody's",
                group=self._group,
                state=group.state.name.lower(),
                members=group.members,
                unowned=len(wanted - group.owned),
            )
        if now_ns - self._wrong_since_ns >= patience_s * NS_PER_S:
            nothing_s = (now_ns - (self._nothing_since_ns or now_ns)) // NS_PER_S
            raise KafkaUnavailable(
                f"this member of group {self._group} owns nothing for {nothing_s} s, and "
                f"{len(wanted - group.owned)} partitions of {', '.join(self._topics)} are nobody's; "
                f"the group is {group.state.name.lower()}, with {group.members} members"
            )
