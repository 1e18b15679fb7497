"""How Faust reaches the cluster: the same settings as every other client, in its own words."""

from __future__ import annotations

import ssl
from typing import Any

import faust

from gpuledger.bus.access import BusAccess
from gpuledger.bus.topics import MAX_BATCH_BYTES


def faust_options(settings: BusAccess) -> dict[str, Any]:
    """Arguments of `faust.App`: broker, broker_credentials and the fetch size that the largest record needs.

    Reading zstd, which every producer here writes, needs aiokafka's codec package `cramjam`.
    """
    options: dict[str, Any] = {
        "broker": ";".join(f"kafka://{address.strip()}" for address in settings.kafka_bootstrap.split(",")),
        "consumer_max_fetch_size": MAX_BATCH_BYTES,
    }
    protocol, password = settings.kafka_security_protocol, settings.kafka_password()
    context = _tls(settings) if protocol.endswith("SSL") else None
    if protocol.startswith("SASL_") and password is not None:
        options["broker_credentials"] = faust.SASLCredentials(
            mechanism=settings.kafka_sasl_mechanism,
            username=settings.kafka_sasl_username,
            password=password.get_secret_value(),
            ssl_context=context,
        )
    elif context is not None:
        options["broker_credentials"] = faust.SSLCredentials(context)
    return options


def _tls(settings: BusAccess) -> ssl.SSLContext:
    ca = settings.kafka_tls_ca_file
    context = ssl.create_default_context(cafile=str(ca) if ca else None)
    if settings.kafka_tls_cert_file is not None:
        password = settings.kafka_tls_key_password()
        context.load_cert_chain(
            settings.kafka_tls_cert_file,
            settings.kafka_tls_key_file,
            password.get_secret_value() if password else None,
        )
    return context
