"""``gpuledger processor``: gpu.telemetry to gpu.charges."""

from __future__ import annotations

import logging
from typing import Annotated

import structlog
import typer
from prometheus_client import start_http_server
from pydantic import ValidationError
from pydantic_settings import SettingsError

from gpuledger.bus import BusSettings
from gpuledger.bus.repeats import quieten
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.topics import TELEMETRY
from gpuledger.processor.app import make_app
from gpuledger.processor.garbage import collect_seldom
from gpuledger.processor.patience import await_topic
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.worker import Worker
from gpuledger.serving.watch import Watch

_log = structlog.get_logger(__name__)


def processor(
    archive: Annotated[
        str | None,
        typer.Option(
            envvar="GPULEDGER_ARCHIVE_URL",
            help="The archive that has what Kafka's retention took: windows are restated from it.",
        ),
    ] = None,
) -> None:
    """Close windows and charge them until SIGTERM. Every worker of an application shares the partitions.

    Settings are environment variables: GPULEDGER_KAFKA_BOOTSTRAP, GPULEDGER_REGISTRY_URL and
    GPULEDGER_PROCESSOR_* (APPLICATION, WINDOW_S, SILENCE_S, SESSION_TIMEOUT_S, METRICS_PORT, ...). It stops
    with an error only when Kafka or the registry is away for long; started again, it loses nothing.
    """
    bus = BusSettings.load()
    try:
        settings = ProcessorSettings()
    except ValidationError as error:
        problems = (
            f"GPULEDGER_PROCESSOR_{'.'.join(map(str, problem['loc'])).upper()}: {problem['msg']}".replace(
                "_: ", ": "
            )
            for problem in error.errors(include_url=False, include_context=False, include_input=False)
        )
        raise ConfigError("; ".join(problems), where="environment") from None
    except SettingsError as error:  # what is no JSON where JSON is needed
        raise ConfigError(str(error), where="environment") from None
    logging.basicConfig(level=logging.WARNING)
    collect_seldom()
    if settings.metrics_port:  # first: a probe of /metrics must not end who waits for Kafka
        start_http_server(settings.metrics_port)
    await_topic(bus, settings.application, TELEMETRY, settings.patience_s)
    with Watch() as watch:
        worker = Worker(make_app(bus, settings, watch, archive), watch=watch)
        quieten("aiokafka")
        _log.info("processor starts", application=settings.application, kafka=bus.kafka_bootstrap)
        worker.execute_from_commandline()


def main() -> None:
    """Run as a module: ``python -m gpuledger.processor``."""
    typer.run(processor)
