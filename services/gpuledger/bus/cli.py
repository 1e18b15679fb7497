"""`gpuledger topics ...` and `gpuledger schemas ...`; exit code 2 where something is refused."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpuledger.bus.admin import Admin, apply_topics
from gpuledger.bus.registry import SchemaRegistry
from gpuledger.bus.schemas import check_all, register_all
from gpuledger.bus.settings import BusSettings
from gpuledger.bus.topics import SPECS, Change
from gpuledger.contract.errors import Refused, UserError
from gpuledger.contract.topics import subject_of, topic_of

topics_app = typer.Typer(
    help="The Kafka topics: what they should be, and making them so.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
schemas_app = typer.Typer(
    help="The Avro schemas in the registry.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

PIPED_WIDTH = 200

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@topics_app.command("apply")
def apply(
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the topics keyed by node; fixed for good.")
    ] = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Replicas of each partition.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="TOPIC:SETTING=VALUE instead of ours; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be changed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create what is missing and set what differs. Safe to repeat."""
    overrides = dict(_override(text) for text in settings or [])
    changes = apply_topics(
        BusSettings.load(),
        partitions=partitions,
        replication=replication,
        overrides=overrides,
        dry_run=dry_run,
    )
    if as_json:
        print(json.dumps({"dry_run": dry_run, "changes": [change._asdict() for change in changes]}))
    elif not changes:
        print("Every topic is as it should be.")
    else:
        Console(soft_wrap=True).print(_changes_table(changes, dry_run))


@topics_app.command("list")
def list_topics(as_json: AsJson = False) -> None:
    """Show every topic, what the cluster has of it, and why it is set so."""
    current = Admin(BusSettings.load()).topics()
    if as_json:
        rows = {
            spec.name: {
                "partitions": current[spec.name].partitions if spec.name in current else None,
                "replication": current[spec.name].replication if spec.name in current else None,
                "config": {
                    key: current[spec.name].config.get(key) if spec.name in current else None
                    for key in spec.config
                },
            }
            for spec in SPECS
        }
        print(json.dumps(rows))
        return
    table = Table("topic", "partitions", "replicas", "cleanup", "retention", "why")
    for spec in SPECS:
        state = current.get(spec.name)
        if state is None:
            table.add_row(spec.name, "-", "-", "not created", "", spec.why)
        else:
            config = state.config
            days = _days(config.get("retention.ms", ""))
            table.add_row(
                spec.name,
                str(state.partitions),
                str(state.replication),
                config["cleanup.policy"],
                days,
                spec.why,
            )
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)  # whole lines for whoever reads them
    console.print(table)


@schemas_app.command("register")
def register(as_json: AsJson = False) -> None:
    """Register the contract's schemas by topic and record name. Safe to repeat."""
    with SchemaRegistry(BusSettings.load()) as registry:
        ids = {subject_of(topic_of(record), record): id_ for record, id_ in register_all(registry).items()}
    if as_json:
        print(json.dumps(ids))
        return
    table = Table("subject", "id")
    for subject, schema_id in ids.items():
        table.add_row(subject, str(schema_id))
    Console(soft_wrap=True).print(table)


@schemas_app.command("check")
def check(as_json: AsJson = False) -> None:
    """Ask whether the registry has every schema, or would take it. Changes nothing."""
    with SchemaRegistry(BusSettings.load()) as registry:
        states = check_all(registry)
    if as_json:
        print(
            json.dumps(
                {
                    "schemas": [
                        {
                            "subject": state.subject,
                            "id": state.schema_id,
                            "rule": state.rule,
                            "compatible": state.compatibility.compatible,
                            "problems": state.compatibility.problems,
                        }
                        for state in states
                    ],
                }
            )
        )
    else:
        table = Table("subject", "rule", "state")
        for state in states:
            known = f"registered, id {state.schema_id}" if state.schema_id is not None else "new, compatible"
            problems = "; ".join(state.compatibility.problems) or "no reason given"
            table.add_row(
                state.subject,
                state.rule,
                known if state.compatibility.compatible else f"not compatible: {problems}",
            )
        Console(soft_wrap=True).print(table)
    refused = [state.subject for state in states if not state.compatibility.compatible]
    if refused:
        raise Refused(f"not BACKWARD compatible with what is registered: {', '.join(refused)}")


def _override(text: str) -> tuple[tuple[str, str], str]:
    name, equals, value = text.partition("=")
    topic, colon, setting = name.partition(":")
    if not (equals and colon and topic and setting):
        raise UserError(f"--set takes TOPIC:SETTING=VALUE, not {text!r}")
    return (topic, setting), value


def _changes_table(changes: list[Change], dry_run: bool) -> Table:
    table = Table("topic", "setting", "before", "would be" if dry_run else "now")
    for change in changes:
        table.add_row(change.topic, change.setting or "created", change.before or "-", change.after)
    return table


def _days(retention_ms: str) -> str:
    return "for ever" if retention_ms == "-1" else f"{int(retention_ms) / 86_400_000:g} days"
