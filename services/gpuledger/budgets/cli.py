"""``gpuledger budgets run``, and ``gpuledger budget ack|silence|clear``."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from typing import Annotated

import structlog
import typer
from prometheus_client import start_http_server
from pydantic import ValidationError

from gpuledger.budgets.lives import ALIVE
from gpuledger.budgets.settings import BudgetSettings
from gpuledger.budgets.status_cli import status
from gpuledger.budgets.topics_read import TopicsRead
from gpuledger.bus import BusSettings, Outgoing, PartitionReader, Producer, SchemaRegistry, framed
from gpuledger.bus.repeats import quieten
from gpuledger.contract.clock import Clock, SystemClock
from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.records import Breach, BreachNote
from gpuledger.contract.topics import BREACH_NOTES, CHARGES
from gpuledger.documents import whoever_calls
from gpuledger.pricing.yaml_budgets import span_ns
from gpuledger.serving.watch import Watch
from gpuledger.warehouse.client import DEFAULT_URL, parse_url

CLIENT_ID = "gpuledger-budget"
GARBAGE_AFTER = (50_000, 20, 20)  # allocations: what is counted has no cycles, and is much
_log = structlog.get_logger(__name__)

budgets_app = typer.Typer(
    help="Budgets: count what is spent and tell each breach once.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
budget_app = typer.Typer(
    help="How budgets stand, and what people say about their breaches.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

budget_app.command("status")(status)

Target = Annotated[str, typer.Argument(help="Id of a breach, or with --budget of a budget.")]
OfBudget = Annotated[bool, typer.Option("--budget", help="All breaches of that budget, also later ones.")]
For = Annotated[str | None, typer.Option("--for", help="How long, such as 30m, 8h or 2d.")]
Who = Annotated[str | None, typer.Option("--who", help="Who; default: you.")]
Comment = Annotated[str, typer.Option("--comment", help="Why.")]


@budgets_app.callback()
def budgets() -> None:
    """Budgets: count what is spent and tell each breach once."""


@budgets_app.command("run")
def run(
    url: Annotated[
        str,
        typer.Option("--url", envvar="GPULEDGER_WAREHOUSE_URL", help="The warehouse, for what is restated."),
    ] = DEFAULT_URL,
) -> None:
    """Count gpu.charges and write gpu.breaches until SIGTERM. All workers share the work.

    Settings are environment variables: GPULEDGER_KAFKA_BOOTSTRAP, GPULEDGER_REGISTRY_URL and
    GPULEDGER_BUDGETS_* (APPLICATION, LINK, SINK_GROUP, SESSION_TIMEOUT_S, METRICS_PORT, ...).
    """
    from gpuledger.budgets.app import make_app  # Faust takes a second to load
    from gpuledger.processor.patience import await_topic
    from gpuledger.processor.worker import Worker

    bus, settings = BusSettings.load(), load_settings()
    parse_url(url)
    logging.basicConfig(level=logging.WARNING)
    gc.set_threshold(*GARBAGE_AFTER)
    if settings.metrics_port:
        start_http_server(settings.metrics_port)
    await_topic(bus, settings.application, CHARGES, settings.patience_s)
    with Watch() as watch:
        worker = Worker(make_app(bus, settings, url, watch), watch=watch)
        quieten("aiokafka")
        _log.info("budgets start", application=settings.application, kafka=bus.kafka_bootstrap)
        worker.execute_from_commandline()


def load_settings() -> BudgetSettings:
    """From the environment. Raises ConfigError that names each wrong variable."""
    try:
        return BudgetSettings()
    except ValidationError as error:
        problems = (
            f"GPULEDGER_BUDGETS_{str(problem['loc'][0]).upper()}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_context=False, include_input=False)
        )
        raise ConfigError("; ".join(problems), where="environment") from None


@budget_app.command("ack")
def acknowledge(
    target: Target,
    of_budget: OfBudget = False,
    lasting: For = None,
    who: Who = None,
    comment: Comment = "",
) -> None:
    """Say that somebody looks after a breach. Without --for: as long as it lives."""
    _write("acknowledged", target, of_budget, lasting, who, comment)


@budget_app.command("silence")
def silence(
    target: Target,
    lasting: Annotated[str, typer.Option("--for", help="How long, such as 30m, 8h or 2d.")],
    of_budget: OfBudget = False,
    who: Who = None,
    comment: Comment = "",
) -> None:
    """Tell nobody of a breach for a while. It is still recorded."""
    _write("silenced", target, of_budget, lasting, who, comment)


@budget_app.command("clear")
def clear(target: Target, of_budget: OfBudget = False, who: Who = None, comment: Comment = "") -> None:
    """Take back what was said."""
    _write("cleared", target, of_budget, None, who, comment)


def _write(
    kind: str, target: str, of_budget: bool, lasting: str | None, who: str | None, comment: str
) -> None:
    clock, settings = SystemClock(), BusSettings.load()
    note = note_of(kind, target, of_budget, lasting, who or whoever_calls(), comment, clock)
    with PartitionReader(settings, CLIENT_ID) as reader, SchemaRegistry(settings) as registry:
        known = [
            breach
            for breach in TopicsRead(reader, registry).breaches()
            if target == (breach.budget_id if of_budget else breach.id)
        ]
        if not of_budget:
            note.change = _newest(note, known).change
        with Producer(settings, CLIENT_ID) as producer:
            producer.produce_all(
                [Outgoing(BREACH_NOTES, target.encode(), framed(registry, note), partition=0)]
            )
    print(_sentence(note, known[-1] if known else None))


def _newest(note: BreachNote, known: Sequence[Breach]) -> Breach:
    """The newest change of the breach. Raises Refused where there is none, or nothing is to look after."""
    if not known:
        raise Refused(f"there is no breach {note.breach_id}; ids are in the messages on gpu.breaches")
    newest = known[-1]
    if note.kind == "acknowledged" and note.until_ns is None and newest.state not in ALIVE:
        raise Refused(f"{newest.id} is over ({newest.state}); with --for TIME the next time is meant, too")
    return newest


def note_of(
    kind: str, target: str, of_budget: bool, lasting: str | None, who: str, comment: str, clock: Clock
) -> BreachNote:
    """What is written. Raises ConfigError for a span that is none."""
    now_ns, until_ns = clock.unix_ns(), None
    if lasting is not None:
        try:
            until_ns = now_ns + span_ns(lasting)
        except ValueError as error:
            raise ConfigError(str(error), "--for") from None
    return BreachNote(
        at_ns=now_ns,
        kind=kind,
        who=who,
        breach_id="" if of_budget else target,
        budget_id=target if of_budget else "",
        until_ns=until_ns,
        comment=comment,
    )


def _sentence(note: BreachNote, breach: Breach | None) -> str:
    what = breach.message if breach is not None and note.breach_id else f"budget {note.budget_id}"
    return f"{note.kind} by {note.who}: {what}"
