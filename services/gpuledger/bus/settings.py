"""Where Kafka and the registry are and how to get in, from the environment; secrets only from files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gpuledger.bus.access import BusAccess, secret_file
from gpuledger.contract.errors import ConfigError

ENV_PREFIX = "GPULEDGER_"


class BusSettings(BaseSettings, BusAccess):
    """Every field is an environment variable: GPULEDGER_KAFKA_BOOTSTRAP and so on.

    A password is read from a file, once, when the settings are made: the environment is inherited, shown by
    `ps e` and kept in crash reports. Files may end in a newline. Raises pydantic's ValidationError, which
    `load` turns into ConfigError.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, hide_input_in_errors=True, extra="ignore", env_ignore_empty=True
    )

    kafka_bootstrap: str = "127.0.0.1:9092"
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    kafka_sasl_username: str | None = None
    kafka_sasl_password_file: Path | None = None
    kafka_tls_ca_file: Path | None = None  # None: the system's authorities
    kafka_tls_cert_file: Path | None = None  # with its key: mutual TLS
    kafka_tls_key_file: Path | None = None
    kafka_tls_key_password_file: Path | None = None
    registry_url: str = "http://127.0.0.1:8081/apis/ccompat/v7"
    registry_username: str | None = None
    registry_password_file: Path | None = None
    registry_tls_ca_file: Path | None = None

    @classmethod
    def load(cls, **overrides: object) -> Self:
        """From the environment, `overrides` first; raises ConfigError that names each wrong variable."""
        try:
            return cls(**overrides)  # type: ignore[arg-type]  # pydantic checks each field itself
        except ValidationError as error:
            problems = [
                " ".join([*(ENV_PREFIX + str(part).upper() for part in problem["loc"][:1]), problem["msg"]])
                for problem in error.errors(include_input=False, include_url=False, include_context=False)
            ]
            raise ConfigError("; ".join(problems), where="environment") from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sasl = self.kafka_security_protocol.startswith("SASL_")
        named = (self.kafka_sasl_mechanism, self.kafka_sasl_username, self.kafka_sasl_password_file)
        if sasl and None in named:
            raise ValueError(
                f"{ENV_PREFIX}KAFKA_SASL_MECHANISM, _USERNAME and _PASSWORD_FILE are all needed for "
                f"{self.kafka_security_protocol}"
            )
        if not sasl and named != (None, None, None):
            raise ValueError(f"SASL is configured but {ENV_PREFIX}KAFKA_SECURITY_PROTOCOL does not use it")
        if self.kafka_sasl_mechanism == "PLAIN" and self.kafka_security_protocol != "SASL_SSL":
            raise ValueError(
                "SASL mechanism PLAIN sends the password in the clear: use SASL_SSL or a SCRAM mechanism"
            )
        if (self.kafka_tls_cert_file is None) != (self.kafka_tls_key_file is None):
            raise ValueError(
                "a client certificate and its key go together: KAFKA_TLS_CERT_FILE, KAFKA_TLS_KEY_FILE"
            )
        if (self.registry_username is None) != (self.registry_password_file is None):
            raise ValueError(f"{ENV_PREFIX}REGISTRY_USERNAME and _PASSWORD_FILE go together")
        if self.registry_username is not None and self.registry_url.startswith("http://"):
            raise ValueError(
                "basic authentication sends the password in the clear: use an https:// REGISTRY_URL"
            )
        for name in (
            "kafka_tls_ca_file",
            "kafka_tls_cert_file",
            "kafka_tls_key_file",
            "registry_tls_ca_file",
        ):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise ValueError(f"{ENV_PREFIX}{name.upper()}: there is no file {path}")
        for name in ("kafka_sasl_password_file", "kafka_tls_key_password_file", "registry_password_file"):
            secret_file(getattr(self, name))
        return self
