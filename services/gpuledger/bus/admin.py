"""Topics of a cluster: read, created, altered."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from gpuledger.bus.access import BusAccess
from gpuledger.bus.kafka_errors import KAFKA_LOGGER, Complaints, typed
from gpuledger.bus.topics import Change, TopicSpec, TopicState, plan, wanted
from gpuledger.contract.errors import KafkaUnavailable, Refused

REQUEST_TIMEOUT_S = 30.0  # topic creation waits for the controller; a busy one takes seconds

METADATA_TIMEOUT_S = 10.0  # a broker that is there answers at once
VISIBLE_POLL_S = 0.1


class Admin:
    """A connection to the cluster's controller. Raises KafkaUnavailable, ConfigError or Refused."""

    def __init__(self, settings: BusAccess) -> None:
        self._complaints = Complaints()
        self._client = AdminClient(
            {**settings.client_config(), "error_cb": self._complaints},  # type: ignore[dict-item]
            logger=KAFKA_LOGGER,
        )

    def topics(self) -> dict[str, TopicState]:
        """Every topic of the contract that the cluster has, with its effective settings."""
        found = self._metadata("listing topics").topics
        ours = [spec.name for spec in wanted() if spec.name in found]
        if not ours:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in ours]
        answers = self._client.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
        states = {}
        for resource, answer in answers.items():
            config = _result(answer, f"reading the settings of {resource.name}")
            partitions = found[resource.name].partitions
            states[resource.name] = TopicState(
                partitions=len(partitions),
                replication=min(len(partition.replicas) for partition in partitions.values()),
                config={name: entry.value or "" for name, entry in config.items()},
            )
        return states

    def brokers(self) -> int:
        """How many brokers the cluster has now."""
        return len(self._metadata("listing brokers").brokers)

    def apply(self, changes: Sequence[Change], specs: Sequence[TopicSpec]) -> None:
        """Carry out a plan, and return once a broker shows the new topics and settings.

        Raises KafkaUnavailable where a topic appeared meanwhile: plan again.
        """
        by_name = {spec.name: spec for spec in specs}
        new = [by_name[change.topic] for change in changes if not change.setting]
        settings: dict[str, list[ConfigEntry]] = {}
        for change in changes:
            if change.setting:
                entry = ConfigEntry(change.setting, change.after, incremental_operation=AlterConfigOpType.SET)
                settings.setdefault(change.topic, []).append(entry)
        if new:
            self._create(new)
        if settings:
            self._alter(settings)
        self._await_visible({spec.name for spec in new}, [change for change in changes if change.setting])

    def _metadata(self, doing: str) -> ClusterMetadata:
        try:
            return self._client.list_topics(timeout=METADATA_TIMEOUT_S)
        except KafkaException as error:
            self._client.poll(0)  # hear why
            raise typed(error, f"{doing}{self._complaints}") from error

    def _create(self, specs: Sequence[TopicSpec]) -> None:
        topics = [
            NewTopic(spec.name, spec.partitions, spec.replication, config=dict(spec.config)) for spec in specs
        ]
        for name, answer in self._client.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S).items():
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    raise KafkaUnavailable(f"{name} was created meanwhile by another: apply again") from error
                if error.args[0].code() in (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_CONFIG):
                    raise Refused(f"{name}: {error.args[0].str()}") from error
                raise typed(error, f"creating {name}") from error

    def _await_visible(self, created: Set[str], changed: Sequence[Change]) -> None:
        # the controller answers before the brokers have heard of it
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while created or changed:
            shown = self.topics()
            if created <= shown.keys() and all(
                shown[change.topic].config.get(change.setting) == change.after for change in changed
            ):
                return
            if time.monotonic() > deadline:
                names = sorted(created | {change.topic for change in changed})
                raise KafkaUnavailable(f"{', '.join(names)} were changed, and the brokers do not show it")
            time.sleep(VISIBLE_POLL_S)

    def _alter(self, settings: Mapping[str, list[ConfigEntry]]) -> None:
        resources = [
            ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
            for name, entries in settings.items()
        ]
        answers = self._client.incremental_alter_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
        for resource, answer in answers.items():
            _result(answer, f"changing the settings of {resource.name}")


def apply_topics(
    settings: BusAccess,
    *,
    partitions: int | None = None,
    replication: int | None = None,
    overrides: Mapping[tuple[str, str], str] | None = None,
    dry_run: bool = False,
) -> list[Change]:
    """Make the cluster have every topic as the contract wants it; returns what was (or would be) changed.

    Idempotent. Raises Refused, with nothing changed, where that would break a rule.
    """
    admin = Admin(settings)
    current = admin.topics()
    specs = wanted(partitions, replication, overrides, current)
    changes = plan(specs, current)
    brokers = admin.brokers()
    missing = [spec for spec in specs if spec.name not in current and spec.replication > brokers]
    if missing:
        raise Refused(
            f"{missing[0].replication} replicas need as many brokers, and the cluster has {brokers}: "
            "start more, or say --replication"
        )
    if not dry_run:
        admin.apply(changes, specs)
    return changes


def _result(answer: Future[Any], doing: str) -> Any:
    try:
        return answer.result()
    except KafkaException as error:
        raise typed(error, doing) from error
