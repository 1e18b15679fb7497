"""The one command of gpuledger: ``gpuledger --help`` tells the story."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from gpuledger import __version__
from gpuledger.contract.errors import EXIT_FAILED, GpuledgerError, exit_status, in_a_line

STORY = """Who used the GPUs of your fleet, how much, how well, and what that cost.

Nodes watch every CUDA call in the kernel and stream it to Kafka (agent); the processor closes
ten-second windows and charges them to pods and teams (processor); the sink writes the ledger to
ClickHouse (sink). Budgets are counted from it as it is written (budgets), and breaches go out to people
(notify). You ask it by team or pod (spend), in SQL (sql), and for what to change (recommend). To see all
of it on one machine: make demo. With nothing but a scrape of dcgm-exporter and a price: charge.

Where things are, unless an option says so: GPULEDGER_KAFKA_BOOTSTRAP, GPULEDGER_REGISTRY_URL and
GPULEDGER_WAREHOUSE_URL in the environment; else the usual ports of this machine.

Exit codes: 0 done, 1 failed, 2 a mistake in the call or a document, 3 a service does not answer,
4 a dry run of `config apply` that would publish something, 130 ended by Ctrl-C.
"""

SECTIONS = {
    "Ask the ledger": {
        "spend": ("gpuledger.spend.cli:spend", "Who spends what: used, held idle, share, trend."),
        "budget": ("gpuledger.budgets.cli:budget_app", "How budgets stand; acknowledge or silence a breach."),
        "recommend": ("gpuledger.recommend.cli:recommend", "What to do about idle GPUs, and what it saves."),
        "explain": ("gpuledger.explain.cli:explain", "Why a charge is what it is."),
        "sql": ("gpuledger.warehouse.cli:sql", "Ask in SQL."),
        "charge": ("gpuledger.charge.cli:charge", "A bill from files alone, without any service."),
    },
    "Say what holds": {
        "config": ("gpuledger.configuration.cli:app", "Prices, teams and budgets: check, show, publish."),
        "prices": (
            "gpuledger.configuration.prices_cli:app",
            "Price lists, and why a device costs what it does.",
        ),
        "teams": ("gpuledger.configuration.teams_cli:app", "Whose a pod is, and why."),
        "period": ("gpuledger.configuration.periods_cli:app", "Close months: what is booked in them stays."),
        "nodes": ("gpuledger.inventory.nodes_cli:app", "What is known of each node; end one that is gone."),
    },
    "Services": {
        "agent": ("gpuledger.agent.cli:app", "On each GPU node: watch, and send what was seen."),
        "inventory": ("gpuledger.inventory.cli:app", "When each node of a cluster began and ended."),
        "processor": ("gpuledger.processor.cli:processor", "Close windows and charge them."),
        "sink": ("gpuledger.sink.cli:sink", "Write the ledger to ClickHouse."),
        "budgets": ("gpuledger.budgets.cli:budgets_app", "Count what is spent, tell each breach once."),
        "notify": ("gpuledger.notify.cli:app", "Breaches to Alertmanager, webhooks, chat, e-mail."),
        "exporter": ("gpuledger.exporter.cli:app", "The ledger as Prometheus metrics."),
        "archive": ("gpuledger.archive.cli:app", "Copy every input topic to files, byte for byte."),
    },
    "History, repair, trial": {
        "replay": ("gpuledger.replay.cli:replay", "Compute charges again: compare, ask, publish."),
        "replay-worker": ("gpuledger.replay.worker_cli:replay_worker", "Do a part of a distributed replay."),
        "dead-letters": ("gpuledger.deadletters.cli:app", "Records that could not be used, and why."),
        "simulate": ("gpuledger.simulate.cli:simulate", "Send what a simulated fleet would send."),
        "warehouse": ("gpuledger.warehouse.cli:warehouse_app", "ClickHouse's tables; the embedded server."),
        "topics": ("gpuledger.bus.cli:topics_app", "The Kafka topics: make them what they should be."),
        "schemas": ("gpuledger.bus.cli:schemas_app", "The Avro schemas in the registry."),
    },
}
"""Where each command lives and what it is for, in the order in which the help tells of them."""
COMMANDS = {name: place for commands in SECTIONS.values() for name, (place, _) in commands.items()}


class LazyGroup(TyperGroup):
    """Loads only the command that was called: neither a query nor the help waits for Faust to be imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the story."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by what they are for, a line each."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), told) for name, (_, told) in commands.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(found)
        return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    help=STORY,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpuledger {__version__}")
        raise typer.Exit


@app.callback()
def story(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    """See STORY; typer shows it as the help text."""


story.__doc__ = STORY


def main() -> None:
    """Run the command; errors that are ours are one line on stderr and an exit code, never a traceback."""
    try:
        app()
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # whoever read has gone: no more to say
        sys.exit(EXIT_FAILED)
    except (GpuledgerError, OSError) as error:
        _say(in_a_line(error))
        sys.exit(exit_status(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _say(error: str) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("error:", style="bold red", end=" ")
    console.print(error, markup=False)
