"""``gpuledger notify``: breaches of budgets to people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import EXIT_FAILED, ConfigError, TargetAway, TargetRefused
from gpuledger.documents import read_text
from gpuledger.logs import write_json_lines
from gpuledger.notify import metrics
from gpuledger.notify.build import build
from gpuledger.notify.document import AnyTarget, read_targets
from gpuledger.notify.service import GROUP, SESSION_TIMEOUT_S, NotifyOptions
from gpuledger.notify.service import run as run_all
from gpuledger.notify.trial import trial
from gpuledger.serving import LOOPBACK, MetricsAddress, MetricsPort, serve_metrics

app = typer.Typer(
    help="Tell people of breaches: Alertmanager, webhooks, chat, e-mail.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Targets = Annotated[
    Path, typer.Option("--targets", envvar="GPULEDGER_NOTIFY_TARGETS", help="YAML document of the targets.")
]


@app.command(short_help="Deliver every breach to every target until SIGTERM.")
def run(
    targets: Targets,
    group: Annotated[str, typer.Option("--group", help="Beginning of the consumer groups' names.")] = GROUP,
    session_timeout: Annotated[
        float,
        typer.Option(
            "--session-timeout", min=1, max=3600, help="Seconds until a dead member's work goes to another."
        ),
    ] = SESSION_TIMEOUT_S,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
) -> None:
    """Deliver every breach to every target until SIGTERM; a target that is away gets it when it is back."""
    write_json_lines()
    options = NotifyOptions(
        BusSettings.load(), _read(targets), group=group, session_timeout_s=session_timeout
    )
    serve_metrics(metrics_port, metrics_address, metrics.REGISTRY)
    run_all(options)


@app.command()
def check(targets: Targets) -> None:
    """Check the document and that its secrets can be read; send nothing."""
    clock = SystemClock()
    for described in _read(targets):
        build(described, clock).close()
        typer.echo(f"{described.name}: {described.type}, budgets {', '.join(described.budgets)}")


@app.command("test")
def send_test(
    targets: Targets,
    only: Annotated[str | None, typer.Option("--only", help="Name of one target.")] = None,
) -> None:
    """Send each target a breach that says it is a test, and its end. Exit code 1 where one fails."""
    clock, console, failed = SystemClock(), Console(highlight=False, soft_wrap=True), False
    chosen = [described for described in _read(targets) if only in (None, described.name)]
    if not chosen:
        raise ConfigError(f"there is no target {only}", str(targets))
    for described in chosen:
        target = build(described, clock)
        try:
            for notice in trial(clock.unix_ns()):
                target.send(notice)
        except (TargetAway, TargetRefused) as why:
            failed = True
            console.print(f"{described.name}: failed, {why}", markup=False)
        else:
            console.print(f"{described.name}: delivered", markup=False)
        finally:
            target.close()
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _read(path: Path) -> list[AnyTarget]:
    return read_targets(read_text(path), str(path))
