"""``gpuledger explain``: why a charge is what it is."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from gpuledger.bus import BusSettings, PartitionReader
from gpuledger.contract.errors import EXIT_FAILED, ConfigError, Refused
from gpuledger.explain.computed import Recomputation
from gpuledger.explain.documents import Documents
from gpuledger.explain.reason import Reason, reason_of
from gpuledger.explain.revisions import revisions_of
from gpuledger.explain.sources import CLIENT, Sources
from gpuledger.explain.stored import Asked, WindowKey, head_of, rows_of, windows_at
from gpuledger.explain.words import words_of
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.processor.settings import ProcessorSettings
from gpuledger.processor.window_inputs import KafkaInputs
from gpuledger.warehouse import DEFAULT_URL, Warehouse, connect


def explain(
    at: Annotated[str, typer.Option("--at", help="An instant in the window: 2026-11-30T12:00:00Z.")],
    pod: Annotated[str, typer.Option(help="NAMESPACE/NAME of the pod.")] = "",
    uid: Annotated[str, typer.Option(help="Uid of the pod, or id of the consumer.")] = "",
    cluster: Annotated[str, typer.Option(help="Cluster.")] = "",
    node: Annotated[str, typer.Option(help="Node.")] = "",
    device: Annotated[str, typer.Option(help="Device.")] = "",
    archive: Annotated[
        str | None, typer.Option(help="Read the records from this archive: a directory or a URL.")
    ] = None,
    revisions: Annotated[
        bool, typer.Option("--revisions/--no-revisions", help="Look for every revision in gpu.charges.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: money in nano-units, times in ns.")
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            "--url",
            envvar="GPULEDGER_WAREHOUSE_URL",
            help="clickhouse://user@host:port/database or http(s).",
        ),
    ] = DEFAULT_URL,
) -> None:
    """Why a charge is what it is: inputs, holders, evidence, price, arithmetic, revisions.

    The window is computed again from its records. Exit code 1 where the ledger says something else.

    gpuledger explain --pod research/train-0 --at 2026-11-30T12:00:00Z
    """
    asked = _asked(pod, uid, cluster, node, device)
    at_ns = _instant(at)
    bus = BusSettings.load()
    warehouse = connect(url)
    try:
        keys = windows_at(warehouse, asked, at_ns)
        if not keys:
            raise Refused(f"the ledger has no charge of {_name(asked)} at {at}")
        with Sources(bus, archive) as sources, PartitionReader(bus, CLIENT) as charges:
            kept = charges if revisions else None
            found = [_reason(warehouse, sources, kept, key, asked) for key in keys]
    finally:
        warehouse.close()
    if as_json:
        print(json.dumps({"windows": [reason.values for reason in found]}))
    else:
        for reason in found:
            for line in words_of(reason.values):
                Console(soft_wrap=True, highlight=False).print(line, markup=False)
    if not all(reason.agrees for reason in found):
        raise typer.Exit(EXIT_FAILED)


def _reason(
    warehouse: Warehouse, sources: Sources, charges: PartitionReader | None, key: WindowKey, asked: Asked
) -> Reason:
    head = head_of(warehouse, key)
    if head is None:
        raise Refused(f"the ledger has rows of {key.node.node} and no head: the sink is still writing it")
    again = Recomputation(
        sources.log,
        sources.schemas,
        KafkaInputs(sources.log),
        ProcessorSettings(),
        lambda earlier: head_of(warehouse, earlier),
    )
    computed = again.of(head)
    told = None
    if charges is not None:
        generations = computed.configuration.generations
        told = revisions_of(charges, key, head.partition, sources.log, generations)
    documents = Documents(sources.log, sources.schemas)
    return reason_of(head, rows_of(warehouse, key), computed, asked, documents, told)


def _asked(pod: str, uid: str, cluster: str, node: str, device: str) -> Asked:
    namespace, slash, name = pod.partition("/")
    if pod and not (slash and namespace and name):
        raise ConfigError(f"{pod!r} is no NAMESPACE/NAME", where="--pod")
    asked = Asked(cluster, node, namespace, name, uid, device)
    if not (pod or uid or node):
        raise ConfigError("say whose charge: --pod NAMESPACE/NAME, --uid, or --node with --cluster, --device")
    return asked


def _name(asked: Asked) -> str:
    said: dict[str, Any] = asked._asdict()
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def _instant(text: str) -> int:
    try:
        return instant_ns(text)
    except ValueError as error:
        raise ConfigError(str(error), where="--at") from None
