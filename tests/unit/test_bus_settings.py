"""Settings of the Kafka edge: complete, consistent, and without a secret in anything printed."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gpuledger.bus import BusSettings
from gpuledger.contract.errors import ConfigError

SECRET = "s3cr3t-of-the-cluster"


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    return file


@pytest.fixture
def sasl(password: Path) -> dict[str, object]:
    return {
        "kafka_security_protocol": "SASL_SSL",
        "kafka_sasl_mechanism": "SCRAM-SHA-512",
        "kafka_sasl_username": "gpuledger",
        "kafka_sasl_password_file": password,
    }


def test_without_an_environment_everything_is_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_BOOTSTRAP", "REGISTRY_URL"):
        monkeypatch.delenv(f"GPULEDGER_{name}", raising=False)
    settings = BusSettings.load()
    assert settings.client_config()["bootstrap.servers"] == "127.0.0.1:9092"
    assert settings.registry_url.startswith("http://127.0.0.1:8081/")


def test_the_environment_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_KAFKA_BOOTSTRAP", "kafka-1:9092,kafka-2:9092")
    assert BusSettings.load().client_config()["bootstrap.servers"] == "kafka-1:9092,kafka-2:9092"


def test_a_client_gets_what_sasl_needs(sasl: dict[str, object], tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----")
    config = BusSettings.load(**sasl, kafka_tls_ca_file=authority).client_config()
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == "SCRAM-SHA-512"
    assert config["sasl.username"] == "gpuledger"
    assert config["sasl.password"] == SECRET
    assert config["ssl.ca.location"] == str(authority)


def test_no_secret_shows_in_anything_printed_or_logged(
    sasl: dict[str, object], password: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = BusSettings.load(
        **sasl,
        kafka_tls_cert_file=password,
        kafka_tls_key_file=password,
        kafka_tls_key_password_file=password,
        registry_url="https://registry",
        registry_username="u",
        registry_password_file=password,
    )
    config = settings.client_config().with_options({"client.id": "x"})
    assert config["ssl.key.password"] == SECRET
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("%s %r", settings, config)
    shown = [
        repr(settings),
        str(settings),
        settings.model_dump_json(),
        repr(config),
        str(config),
        f"{config}",
    ]
    shown += [repr(settings.kafka_password()), repr(settings.registry_password()), caplog.text]
    assert all(SECRET not in text for text in shown)
    assert "'client.id': 'x'" in repr(config)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kafka_sasl_username": None}, "all needed for SASL_SSL"),
        ({"kafka_security_protocol": "SSL"}, "does not use it"),
        ({"kafka_sasl_mechanism": "PLAIN", "kafka_security_protocol": "SASL_PLAINTEXT"}, "in the clear"),
        ({"kafka_sasl_mechanism": "MD5"}, "GPULEDGER_KAFKA_SASL_MECHANISM"),
        ({"kafka_tls_cert_file": Path("/x")}, "go together"),
        ({"kafka_tls_ca_file": Path("/does/not/exist")}, "GPULEDGER_KAFKA_TLS_CA_FILE: there is no file"),
        (
            {"kafka_sasl_password_file": Path("/does/not/exist")},
            "/does/not/exist cannot be read: FileNotFound",
        ),
        ({"registry_username": "u"}, "go together"),
    ],
)
def test_what_does_not_fit_together_is_said(
    sasl: dict[str, object], changed: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        BusSettings.load(**{**sasl, **changed})
    assert SECRET not in str(caught.value)


def test_a_password_does_not_go_to_a_registry_in_the_clear(password: Path) -> None:
    with pytest.raises(ConfigError, match="use an https:// REGISTRY_URL"):
        BusSettings.load(registry_url="http://r", registry_username="u", registry_password_file=password)


def test_an_empty_secret_file_is_refused(sasl: dict[str, object], password: Path) -> None:
    password.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        BusSettings.load(**sasl)


def test_settings_that_are_dumped_name_files_and_no_content(sasl: dict[str, object], password: Path) -> None:
    dumped = json.loads(BusSettings.load(**sasl).model_dump_json())
    assert dumped["kafka_sasl_password_file"] == str(password)
