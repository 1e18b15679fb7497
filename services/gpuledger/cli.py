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
ClickHouse (sink); you ask it in SQL (sql). Prices and teams are documents (config). To see all of it
on one machine: make demo. With nothing but a scrape of dcgm-exporter and a price: charge.

Where things are, unless an option says so: GPULEDGER_KAFKA_BOOTSTRAP, GPULEDGER_REGISTRY_URL and
GPULEDGER_WAREHOUSE_URL in the environment; else the usual ports of this machine.

Exit codes: 0 done, 1 failed, 2 a mistake in the call or a document, 3 a service does not answer,
4 a dry run of `config apply` that would publish something.
"""

COMMANDS = {
    "agent": "gpuledger.agent.cli:app",
    "inventory": "gpuledger.inventory.cli:app",
    "nodes": "gpuledger.inventory.nodes_cli:app",
    "processor": "gpuledger.processor.cli:processor",
    "budgets": "gpuledger.budgets.cli:budgets_app",
    "budget": "gpuledger.budgets.cli:budget_app",
    "sink": "gpuledger.sink.cli:sink",
    "notify": "gpuledger.notify.cli:app",
    "exporter": "gpuledger.exporter.cli:app",
    "charge": "gpuledger.charge.cli:charge",
    "spend": "gpuledger.spend.cli:spend",
    "explain": "gpuledger.explain.cli:explain",
    "recommend": "gpuledger.recommend.cli:recommend",
    "sql": "gpuledger.warehouse.cli:sql",
    "warehouse": "gpuledger.warehouse.cli:warehouse_app",
    "config": "gpuledger.configuration.cli:app",
    "prices": "gpuledger.configuration.prices_cli:app",
    "teams": "gpuledger.configuration.teams_cli:app",
    "simulate": "gpuledger.simulate.cli:simulate",
    "archive": "gpuledger.archive.cli:app",
    "replay": "gpuledger.replay.cli:replay",
    "dead-letters": "gpuledger.deadletters.cli:app",
    "topics": "gpuledger.bus.cli:topics_app",
    "schemas": "gpuledger.bus.cli:schemas_app",
}
"""Where each command lives; in the order in which the help tells of them."""


class LazyGroup(TyperGroup):
    """Loads only the command that was called: a query need not wait for Faust to be imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the story."""
        return list(COMMANDS)

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
