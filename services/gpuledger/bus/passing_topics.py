"""Topics that are there for one task only, and the group of those who work on it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gpuledger.bus.access import BusAccess
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, typed
from gpuledger.bus.topics import DEFAULT_REPLICATION, MAX_BATCH_BYTES
from gpuledger.contract.errors import KafkaUnavailable

REQUEST_TIMEOUT_S = 30.0
METADATA_TIMEOUT_S = 10.0
VISIBLE_POLL_S = 0.1
_SETTINGS = {"max.message.bytes": str(MAX_BATCH_BYTES), "compression.type": "producer", "retention.ms": "-1"}
_COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}


class PassingTopics:
    """Makes and removes them. Raises KafkaUnavailable, ConfigError."""

    def __init__(self, settings: BusAccess) -> None:
        self._client = AdminClient(dict(settings.client_config()), logger=KAFKA_LOGGER)

    def names(self) -> set[str]:
        """Every topic of the cluster."""
        try:
            return set(self._client.list_topics(timeout=METADATA_TIMEOUT_S).topics)
        except KafkaException as error:
            raise typed(error, "listing topics") from error

    def create(self, name: str, partitions: int, *, compacted: bool = False) -> None:
        """Make a topic, on all brokers but three at most; one of that name is used as it is."""
        try:
            brokers = len(self._client.list_topics(timeout=METADATA_TIMEOUT_S).brokers)
        except KafkaException as error:
            raise typed(error, "counting brokers") from error
        config = _SETTINGS | (_COMPACTED if compacted else {})
        new = NewTopic(name, partitions, min(DEFAULT_REPLICATION, brokers), config=config)
        _answers(
            self._client.create_topics([new], request_timeout=REQUEST_TIMEOUT_S),
            "creating",
            KafkaError.TOPIC_ALREADY_EXISTS,
        )
        self._await_that({name}, there=True)

    def delete(self, names: Iterable[str]) -> None:
        """Remove topics; those that are not there are no error."""
        gone = sorted(set(names) & self.names())
        if gone:
            _answers(
                self._client.delete_topics(gone, request_timeout=REQUEST_TIMEOUT_S),
                "deleting",
                KafkaError.UNKNOWN_TOPIC_OR_PART,
            )
            self._await_that(set(gone), there=False)

    def members(self, group: str) -> int:
        """How many are in a group now."""
        answer = self._client.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)[group]
        try:
            return len(answer.result().members)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise typed(error, f"asking for the members of {group}") from error

    def delete_group(self, group: str) -> None:
        """Forget the offsets of a group that has no member any more."""
        answers = self._client.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
        _answers(answers, "deleting the group", KafkaError.GROUP_ID_NOT_FOUND)

    def _await_that(self, names: set[str], there: bool) -> None:
        # the controller answers before the brokers have heard of it
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while (names <= self.names()) != there or (not there and names & self.names()):
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"{', '.join(sorted(names))} were changed, and the brokers do not show it"
                )
            time.sleep(VISIBLE_POLL_S)


def _answers(answers: dict[str, Future[Any]], doing: str, harmless: int) -> None:
    for name, answer in answers.items():
        try:
            answer.result()
        except KafkaException as error:
            if error.args[0].code() != harmless:
                raise typed(error, f"{doing} {name}") from error
