"""A broker with TLS, passwords and rights: what deploy/kafka/acls.sh gives is enough, and no more."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from gpuledger.archive.archiver import ARCHIVED
from gpuledger.bus import (
    Admin,
    BusSettings,
    Outgoing,
    PartitionReader,
    Producer,
    TransactionalProducer,
    apply_topics,
    committed_offsets,
)
from gpuledger.bus.faust_client import faust_options
from gpuledger.contract.errors import ConfigError, KafkaUnavailable
from gpuledger.contract.topics import CHARGES, DEAD_LETTERS, NODES, PRICES, PROGRESS, TELEMETRY
from gpuledger.localstack import Kafka
from gpuledger.localstack.server import short_lived_java
from tests.support.kafka import STACK_DIRECTORY
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
USERS = (
    "admin",
    *(
        f"gpuledger-{name}"
        for name in ("agent", "inventory", "processor", "sink", "commitments", "archive", "admin")
    ),
)
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="{user}" password="{password}";'
)

As = Callable[[str], BusSettings]


def _properties(keystore: Path, certificate: Path) -> dict[str, str]:
    listeners = "SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller_port}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": JAAS.format(
            user="admin", password="of-admin"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # the controller's own listener
    }


@pytest.fixture(scope="module")
def as_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[As]:
    """`as_user(name)` are that user's settings on a broker whose rights acls.sh has set."""
    home = tmp_path_factory.mktemp("secure")
    key, certificate, keystore = home / "key.pem", home / "cert.pem", home / "keystore.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=127.0.0.1",
            ),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    keystore.write_text(key.read_text() + certificate.read_text())

    users = {user: f"of-{user}" for user in USERS}
    with Kafka(home / "kafka", STACK_DIRECTORY, _properties(keystore, certificate), users) as server:

        def settings(user: str) -> BusSettings:
            password = home / user
            password.write_text(f"of-{user}")
            return BusSettings(
                kafka_bootstrap=server.bootstrap,
                kafka_security_protocol="SASL_SSL",
                kafka_sasl_mechanism="SCRAM-SHA-512",
                kafka_sasl_username=user,
                kafka_sasl_password_file=password,
                kafka_tls_ca_file=certificate,
            )

        _set_rights(home, server.bootstrap, certificate)

        def applied() -> bool:
            try:
                apply_topics(settings("gpuledger-admin"), partitions=2, replication=1)
            except ConfigError:  # the broker learns of a right after the controller
                return False
            return True

        until(applied)
        with PartitionReader(settings("admin"), "test") as reader:
            for topic, state in Admin(settings("admin")).topics().items():
                for partition in range(state.partitions):
                    until(partial(_is_read, reader, topic, partition))
        yield settings


def _is_read(reader: PartitionReader, topic: str, partition: int) -> bool:
    try:
        list(reader.read_to_end(topic, partition))
    except KafkaUnavailable:  # a topic that was made a moment ago has no leader yet
        return False
    return True


def _set_rights(home: Path, bootstrap: str, certificate: Path) -> None:
    tools = home / "bin"
    tools.mkdir()
    libs = STACK_DIRECTORY.resolve() / "kafka" / "libs"
    script = tools / "kafka-acls.sh"  # what the distribution's script of that name does
    script.write_text(
        f"#!/bin/sh\nexec java {' '.join(short_lived_java(STACK_DIRECTORY, 'kafka'))} "
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error "
        f"-cp '{libs}/*' org.apache.kafka.tools.AclCommand \"$@\"\n"
    )
    script.chmod(0o755)
    admin = home / "admin.properties"
    admin.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={certificate}\n"
        f"sasl.jaas.config={JAAS.format(user='admin', password='of-admin')}\n"
    )
    done = subprocess.run(
        [ROOT / "deploy" / "kafka" / "acls.sh", bootstrap, admin],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_agent_may_write_its_telemetry_and_may_read_nothing(as_user: As) -> None:
    settings = as_user("gpuledger-agent")
    assert Admin(settings).topics()[NODES].partitions == 2
    with Producer(settings, "agent") as producer:
        producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"1"), Outgoing(NODES, b"c/n", b"1")])
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(CHARGES, b"c/n", b"forged")])
    with PartitionReader(settings, "agent") as reader, pytest.raises(ConfigError, match="ACL"):
        list(reader.read_range(TELEMETRY, 0, 0, 0) or reader.read_range(TELEMETRY, 1, 0, 0))


def test_a_processor_may_do_its_work(as_user: As) -> None:
    settings = as_user("gpuledger-processor")
    with Producer(settings, "processor") as producer:
        producer.produce_all([Outgoing(CHARGES, b"c/n", b"1"), Outgoing(DEAD_LETTERS, b"c/n", b"1")])
    with TransactionalProducer(settings, "processor", "gpuledger-processor-0") as owner:
        owner.commit([Outgoing(PROGRESS, b"c/n/1", b"1", partition=0)])
    with PartitionReader(settings, "processor") as reader:
        reader.bounds(PROGRESS, 0)
    assert committed_offsets(settings, "processor", "gpuledger-processor", TELEMETRY, [0]) == {0: None}


def test_a_sink_may_read_charges_and_may_not_write_them(as_user: As) -> None:
    settings = as_user("gpuledger-sink")
    with Producer(settings, "sink") as producer:
        producer.produce_all([Outgoing(DEAD_LETTERS, b"c/n", b"1")])
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(CHARGES, b"c/n", b"forged")])


def test_commitments_may_be_read_from_prices_and_written_to_charges_and_nothing_else(as_user: As) -> None:
    settings = as_user("gpuledger-commitments")
    with PartitionReader(settings, "commitments") as reader:
        assert list(reader.read_to_end(PRICES, 0)) is not None
        with pytest.raises(ConfigError, match="ACL"):
            list(reader.read_range(CHARGES, 0, 0, 0) or reader.read_range(CHARGES, 1, 0, 0))
    with Producer(settings, "commitments") as producer:
        producer.produce_all([Outgoing(CHARGES, b"-/-", b"1")])
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(PRICES, b"prices", b"forged")])


def test_an_archive_may_read_every_input_and_write_nothing(as_user: As) -> None:
    settings = as_user("gpuledger-archive")
    with PartitionReader(settings, "archive") as reader:
        for topic in ARCHIVED:
            assert list(reader.read_to_end(topic, 0)) is not None
        with pytest.raises(ConfigError, match=r"gpu\.charges"):  # without a right it does not even know of it
            list(reader.read_to_end(CHARGES, 0))
    with Producer(settings, "archive") as producer, pytest.raises(ConfigError, match="ACL"):
        producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"forged")])


def test_an_inventory_may_say_and_read_when_nodes_lived_and_nothing_else(as_user: As) -> None:
    settings = as_user("gpuledger-inventory")
    with Producer(settings, "inventory") as producer:
        place = producer.produce_all([Outgoing(NODES, b"c/m", b"1")])[0]
        with pytest.raises(ConfigError, match="ACL"):
            producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"forged")])
    with PartitionReader(settings, "inventory") as reader:
        (read,) = reader.read_range(NODES, place.partition, place.offset, place.offset)
        assert read.value == b"1"


def test_faust_reaches_the_broker_with_the_same_settings_and_reads_what_we_compress(as_user: As) -> None:
    with Producer(as_user("gpuledger-agent"), "agent") as producer:
        place = producer.produce_all([Outgoing(TELEMETRY, b"c/n", bytes(10_000))])[0]
    options = faust_options(as_user("gpuledger-processor"))
    credentials = options["broker_credentials"]
    assert "of-gpuledger" not in repr(credentials)

    async def read() -> bytes:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=options["broker"].removeprefix("kafka://"),
            security_protocol=credentials.protocol.value,
            sasl_mechanism=credentials.mechanism.value,
            sasl_plain_username=credentials.username,
            sasl_plain_password=credentials.password,
            ssl_context=credentials.ssl_context,
            group_id=None,
        )
        await consumer.start()
        try:
            where = TopicPartition(TELEMETRY, place.partition)
            consumer.assign([where])
            consumer.seek(where, place.offset)
            record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            return bytes(record.value)
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == bytes(10_000)


def test_a_wrong_password_is_said(as_user: As, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    settings = as_user("gpuledger-agent").model_copy(update={"kafka_sasl_password_file": wrong})

    def sending() -> str:
        with Producer(settings, "agent") as producer, pytest.raises(KafkaUnavailable) as refused:
            producer.produce_all([Outgoing(TELEMETRY, b"c/n", b"1")], timeout_s=3)
        return str(refused.value)

    def listing() -> str:
        with pytest.raises(KafkaUnavailable) as refused:
            Admin(settings).topics()
        return str(refused.value)

    for trying in (sending, listing):
        said: list[str] = []
        until(partial(_says, trying, said, "Authentication failed"))  # a slow broker does not get to say it
        assert "guess" not in said[-1]


def _says(trying: Callable[[], str], said: list[str], text: str) -> bool:
    said.append(trying())
    return text in said[-1]
