"""`gpuledger charge`: the bill of some GPUs from files, with no service and no account anywhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from gpuledger.attribution import Charges, NodeWindow, charge_windows
from gpuledger.charge.bill import bill_of
from gpuledger.charge.files import duration_ns, instant
from gpuledger.charge.holders import devices_in, on_node
from gpuledger.charge.inputs import Inputs, price_books, read_inputs, team_maps
from gpuledger.charge.recorded import windows_of
from gpuledger.charge.scrapes import Scrape, Stretch, devices_of, stretches
from gpuledger.charge.show import as_json, print_bill, print_explained
from gpuledger.charge.windows import Place, windows, with_scrapes
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import (
    NodeLayout,
    TeamMapVersion,
)
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing import Prices, Teams

PIPED_WIDTH = 180
WINDOWS_AT_A_TIME = 240
_SEQUENCE_OF_SCRAPES = 1 << 30  # behind every record that an agent sent for the window


class Given(NamedTuple):
    """Options that fill in what files leave open."""

    replicas: int | None
    for_ns: int | None
    gpu_model: str
    maps: Sequence[TeamMapVersion]


def charge(
    samples: Annotated[
        list[str] | None,
        typer.Option(
            help="Scrape of dcgm-exporter, FILE or FILE@TIME; several are charged for the time between them."
            " Or an Avro file of SampleBatch records."
        ),
    ] = None,
    holdings: Annotated[
        list[Path] | None,
        typer.Option(
            help="Who holds what: PodResources as JSON, `kubectl get pods -o json`, a holders file, or an"
            " Avro file of Holdings records. Default: the scrape's pod labels."
        ),
    ] = None,
    events: Annotated[list[Path] | None, typer.Option(help="Avro file of EventBatch records.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price list in YAML. Without it: GPU time only.")
    ] = None,
    teams: Annotated[
        Path | None, typer.Option(help="Team rules in YAML. Default: label team, else namespace.")
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", help="How long one scrape speaks for: 30s, 15m, 1h30m, 7d. Default: 1h."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="When the only scrape was taken, such as 2026-01-01T00:00:00Z.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Slots of each shared GPU, where no listing says.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="Cluster, for prices and team rules.")] = "",
    node: Annotated[
        str, typer.Option(help="Name of the node, where the scrape is of one. Default: its label.")
    ] = "",
    instance_type: Annotated[str, typer.Option(help="Instance type of the nodes, for prices.")] = "",
    capacity_type: Annotated[str, typer.Option(help="on_demand, spot, reserved, ...; for prices.")] = "",
    region: Annotated[str, typer.Option(help="Region, for prices.")] = "",
    zone: Annotated[str, typer.Option(help="Zone, for prices.")] = "",
    node_pool: Annotated[str, typer.Option(help="Node pool, for prices and team rules.")] = "",
    gpu_model: Annotated[
        str, typer.Option(help="Model of GPUs of which no scrape says it, for prices.")
    ] = "",
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, amounts in nano-units.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the arithmetic of each line.")] = False,
) -> None:
    """Who pays for GPUs, from files: a scrape and a price are enough.

    Every assumption that had to be made is printed. Example:
    gpuledger charge --samples metrics.txt --for 1h --holdings podresources.json --prices prices.yaml
    """
    inputs = read_inputs(samples or [], holdings or [], events or [], at)
    assumed: list[str] = []
    books, maps = price_books(prices, assumed), team_maps(teams)
    told = NodeLayout(
        instance_type=instance_type,
        capacity_type=capacity_type,
        region=region,
        zone=zone,
        node_pool=node_pool,
    )
    length = None if for_ is None else duration_ns(for_, "--for")
    spans = stretches(inputs.scrapes, length, instant(at, "--at") if at else _now_ns())
    if inputs.recorded:
        found: Iterable[NodeWindow] = _recorded(inputs, spans, assumed)
    else:
        given = Given(replicas, length, gpu_model, maps)
        found = _from_files(inputs, Place(cluster, node), told, spans, given, assumed)
    bill = bill_of(_charged(found, Prices(books), Teams(maps)))
    if json_:
        print(as_json(bill, assumed, inputs.scrapes))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH, highlight=False)
    print_bill(console, bill, assumed)
    if explain:
        print_explained(console, bill, [entry for book in books for entry in book.entries])


def _charged(found: Iterable[NodeWindow], prices: Prices, teams: Teams) -> Iterator[Charges]:
    """The charges of windows, some at a time, with a bar where it takes long."""
    windows_left = iter(found)
    with Progress(SpinnerColumn(), "{task.description}", TimeElapsedColumn(), console=Console(stderr=True),
                  transient=True, disable=not sys.stderr.isatty()) as progress:  # fmt: skip
        task = progress.add_task("charging")
        while some := list(islice(windows_left, WINDOWS_AT_A_TIME)):
            progress.update(task, description=f"charging {some[0].node}")
            yield from charge_windows(some, prices, teams)


def _recorded(inputs: Inputs, spans: Sequence[Stretch], assumed: list[str]) -> list[NodeWindow]:
    """Windows of an agent's own records, with what scrapes say beside them."""
    if not inputs.stated.empty:
        raise ConfigError("an agent's records state their holders themselves; leave out the other --holdings")
    found = windows_of(inputs.recorded)
    if not any(window.holdings for window in found):
        raise ConfigError("events and samples of an agent need its Holdings records: give them as --holdings")
    if inputs.scrapes:
        assumed.append("the scrapes are taken to be of the node that sent the records")
        found = with_scrapes(found, spans, _SEQUENCE_OF_SCRAPES)
    return found


def _from_files(
    inputs: Inputs,
    place: Place,
    told: NodeLayout,
    spans: Sequence[Stretch],
    given: Given,
    assumed: list[str],
) -> Iterator[NodeWindow]:
    """Windows of each node that scrapes or listings name; every assumption is said before the first."""
    nodes = devices_of(inputs.scrapes, place.node)
    known = {device.uuid for devices in nodes.values() for device in devices}
    more = devices_in(inputs.stated, known, given.gpu_model)
    if more:
        name = place.node or next(iter(nodes), "node")
        if len(nodes) > 1:
            raise ConfigError(
                "the listing has GPUs that no scrape shows, of several nodes: say which with --node"
            )
        nodes[name] = [*nodes.get(name, []), *more]
        assumed.append(
            f"{name}: {len(more)} GPUs of the listing are in no scrape: what ran on them is not known"
        )
    if not nodes:
        raise ConfigError("no GPU is known: the pods' listing names none, give --samples or PodResources")
    _say_times(inputs.scrapes, given.for_ns, assumed)
    labelled = [holder for scrape in inputs.scrapes for holder in scrape.exposition.holders]
    cuts = _instants_of(given.maps)
    ready = []
    for name, devices in nodes.items():
        layout = NodeLayout(
            **{
                slot: getattr(told, slot)
                for slot in NodeLayout.__slots__
                if slot not in ("devices", "labels")
            },
            devices=devices,
        )
        uuids = {device.uuid for device in devices}
        mine = [holder for holder in dict.fromkeys(labelled) if holder.uuid in uuids]
        on = on_node(inputs.stated, name, layout, mine, given.replicas)
        assumed += on.assumed
        ready.append(windows(Place(place.cluster, name), on, spans, cuts))
    return chain.from_iterable(ready)


def _instants_of(maps: Sequence[TeamMapVersion]) -> set[int]:
    """When team rules begin and end: a window takes the rules that hold at its start."""
    rules = [rule for teams in maps for rule in teams.rules]
    return {rule.effective_from_ns for rule in rules} | {rule.effective_to_ns or 0 for rule in rules}


def _say_times(scrapes: Sequence[Scrape], for_ns: int | None, assumed: list[str]) -> None:
    for scrape in scrapes:
        if scrape.stated:
            assumed.append(
                f"{scrape.path.name}: its time is {scrape.stated} (say it: {scrape.path.name}@TIME)"
            )
        if scrape.exposition.skipped_lines:
            count = scrape.exposition.skipped_lines
            assumed.append(f"{scrape.path.name}: {count} lines could not be read and count for nothing")
    if not scrapes:
        assumed.append("no scrape: what ran is not known, only who held what")
    if for_ns is None and len(scrapes) < 2:
        assumed.append("the time charged is 1 h (no --for)")
    if len(scrapes) == 1:
        assumed.append("all of the time was as the one scrape shows it")
    assumed.append("who holds what was the same all the time")


def _now_ns() -> int:
    return time.time_ns() // NS_PER_S * NS_PER_S
