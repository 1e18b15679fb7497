"""librdkafka's errors turned into ours: the one place that knows their codes."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException

from gpuledger.bus.repeats import Repeats
from gpuledger.contract.errors import (
    BadRecord,
    ConfigError,
    Fenced,
    GpuledgerError,
    KafkaUnavailable,
    NoTopic,
    ProducerBroken,
)

_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.FENCED_INSTANCE_ID})
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_NOT_ALLOWED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_NO_TOPIC = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)

KAFKA_LOGGER = logging.getLogger("gpuledger.bus.kafka")
"""What librdkafka itself has to say goes here: connections that fail, owners that are fenced."""
# that the guarantee against gaps is called experimental is known, and said at each start; our tests hold it
KAFKA_LOGGER.addFilter(lambda record: not record.getMessage().startswith("CONFWARN"))
KAFKA_LOGGER.addFilter(Repeats())


class Complaints:
    """The `error_cb` of a client: remembers the last error that told why nothing goes, to say it in time.

    As text it is empty, or ends a sentence.
    """

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        """Remember it."""
        # that all brokers are down only follows from what was said before
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last:
            self._last = error.str()

    def __str__(self) -> str:
        return f" ({self._last})" if self._last else ""


def says_no_topic(error: KafkaError | KafkaException) -> bool:
    """Whether a topic or partition is not there, or was forgotten by a client whose brokers are away."""
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return cause.code() in _NO_TOPIC


def typed(error: KafkaError | KafkaException, doing: str) -> GpuledgerError:
    """The error of our tree; `doing` says what was being done, with topic and partition where known.

    Fenced, BadRecord (over_limit), ConfigError (not allowed in; NoTopic), ProducerBroken for what ended
    the client, else KafkaUnavailable.
    """
    cause: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    code = cause.code()
    said = f"{doing}: {cause.str()} ({cause.name()})"
    if code in _FENCED:
        return Fenced(said)
    if code in _TOO_LARGE:
        return BadRecord("over_limit", said)
    if code in _NOT_ALLOWED:
        return ConfigError(f"{said}; check the SASL user and its ACLs")
    if code in _NO_TOPIC:
        return NoTopic(f"{said}; `gpuledger topics apply` creates the topics")
    return ProducerBroken(said) if cause.fatal() else KafkaUnavailable(said)
