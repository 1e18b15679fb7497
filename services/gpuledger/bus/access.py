"""What a client has to know of Kafka and the registry, as plain values: all that a running client needs.

`BusSettings` reads and checks them; a process that must stay small takes them ready-made (`plain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

SECRET_OPTIONS = frozenset({"sasl.password", "ssl.key.password"})
HIDDEN = "**********"

Option: TypeAlias = str | int | float | bool


class ClientConfig(dict[str, Option]):
    """Options of a librdkafka client that show no secret when printed or logged."""

    def __repr__(self) -> str:
        shown = {name: HIDDEN if name in SECRET_OPTIONS else value for name, value in self.items()}
        return f"{type(self).__name__}({shown!r})"

    __str__ = __repr__

    def with_options(self, options: Mapping[str, Option]) -> ClientConfig:
        """These options and `options`, which win."""
        return ClientConfig({**self, **options})


class Secret:
    """A text that shows itself to nobody but who asks for it by name."""

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        """The text itself."""
        return self._value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({HIDDEN!r})"

    __str__ = __repr__


class BusAccess:
    """Where Kafka and the registry are and how to get in. See `BusSettings` for what may be given."""

    kafka_bootstrap: str
    kafka_security_protocol: str
    kafka_sasl_mechanism: str | None
    kafka_sasl_username: str | None
    kafka_sasl_password_file: Path | None
    kafka_tls_ca_file: Path | None
    kafka_tls_cert_file: Path | None
    kafka_tls_key_file: Path | None
    kafka_tls_key_password_file: Path | None
    registry_url: str
    registry_username: str | None
    registry_password_file: Path | None
    registry_tls_ca_file: Path | None

    def plain(self) -> BusAccess:
        """The same without what read and checked it; it holds no secret, only the files where they are."""
        found = BusAccess()
        found.__dict__.update({name: getattr(self, name) for name in BusAccess.__annotations__})
        return found

    def client_config(self) -> ClientConfig:
        """What every librdkafka client needs to reach the cluster; shows no secret when printed."""
        config = ClientConfig(
            {
                "bootstrap.servers": self.kafka_bootstrap,
                "security.protocol": self.kafka_security_protocol,
                # errors reach the caller as exceptions; repeated connection warnings would only fill a log
                "log.connection.close": False,
            }
        )
        optional: dict[str, Option | None] = {
            "sasl.mechanism": self.kafka_sasl_mechanism,
            "sasl.username": self.kafka_sasl_username,
            "sasl.password": _revealed(secret_file(self.kafka_sasl_password_file)),
            "ssl.ca.location": _text(self.kafka_tls_ca_file),
            "ssl.certificate.location": _text(self.kafka_tls_cert_file),
            "ssl.key.location": _text(self.kafka_tls_key_file),
            "ssl.key.password": _revealed(secret_file(self.kafka_tls_key_password_file)),
        }
        config.update({name: value for name, value in optional.items() if value is not None})
        return config

    def kafka_password(self) -> Secret | None:
        """The SASL password, or None without SASL."""
        return secret_file(self.kafka_sasl_password_file)

    def kafka_tls_key_password(self) -> Secret | None:
        """What the client key is encrypted with, or None."""
        return secret_file(self.kafka_tls_key_password_file)

    def registry_password(self) -> Secret | None:
        """The registry's password, or None without basic authentication."""
        return secret_file(self.registry_password_file)


def secret_file(path: Path | None) -> Secret | None:
    """The secret that a file holds, without the newline at its end; ValueError where it cannot be read."""
    if path is None:
        return None
    try:
        secret = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the secret file {path} cannot be read: {type(error).__name__}") from None
    if not secret:
        raise ValueError(f"the secret file {path} is empty")
    return Secret(secret)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
