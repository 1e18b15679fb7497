"""A broker with TLS and passwords whose rights deploy/kafka/acls.sh has set."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuledger.bus import Admin, BusSettings, PartitionReader, apply_topics, committed_offsets
from gpuledger.contract.errors import ConfigError, KafkaUnavailable
from gpuledger.contract.topics import TELEMETRY
from gpuledger.localstack import Kafka, Registry
from gpuledger.localstack.server import short_lived_java
from tests.support.kafka import STACK_DIRECTORY
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
USERS = (
    "admin",
    *(
        f"gpuledger-{name}"
        for name in (
            *("agent", "inventory", "processor", "sink", "budgets", "notify", "commitments", "archive"),
            *("replay", "operator", "admin"),
        )
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
def as_user(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[As]:
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
                registry_url=registry.url,
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
        until(lambda: _has_coordinator(settings("admin")))
        yield settings


def _is_read(reader: PartitionReader, topic: str, partition: int) -> bool:
    try:
        list(reader.read_to_end(topic, partition))
    except KafkaUnavailable:  # a topic that was made a moment ago has no leader yet
        return False
    return True


def _has_coordinator(bus: BusSettings) -> bool:
    try:
        committed_offsets(bus, "test", "of-nobody", TELEMETRY, [0])
    except KafkaUnavailable:  # the first group that a broker is asked for makes it prepare for groups
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
