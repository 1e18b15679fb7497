"""`gpuledger charge`: the bill of some GPUs from files, with no service and no account anywhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from gpuledger.attribution import Charges, NodeWindow, Policy, charge_windows
from gpuledger.attribution.trace import Steps
from gpuledger.charge.arithmetic import Arithmetic
from gpuledger.charge.bill import bill_of
from gpuledger.charge.explained import explanation
from gpuledger.charge.files import duration_ns, instant
from gpuledger.charge.inputs import price_books, read_inputs, team_maps
from gpuledger.charge.json_bill import as_json
from gpuledger.charge.nodes import Given, node_windows
from gpuledger.charge.policies import Policies
from gpuledger.charge.scrapes import stretches
from gpuledger.charge.show import print_bill
from gpuledger.charge.windows import Place
from gpuledger.charge.words import said_missing
from gpuledger.contract.capacity import capacity_word
from gpuledger.contract.records import NodeLayout
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing import Prices, Teams

PIPED_WIDTH = 10_000  # characters; a table that goes to a file or a pipe is never folded
WINDOWS_AT_A_TIME = 240


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
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="How idle and borrowed time is shared out, such as burst=reserved_first; repeat it."
            " Default: the policies of --teams."
        ),
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
        capacity_type=capacity_word(capacity_type),
        region=region,
        zone=zone,
        node_pool=node_pool,
    )
    length = None if for_ is None else duration_ns(for_, "--for")
    spans = stretches(inputs.scrapes, length, instant(at, "--at") if at else _now_ns())
    decided: list[str] = []
    policies = Policies(Policy.settings_of(policy or ()), maps)
    given = Given(Place(cluster, node), told, replicas, length, gpu_model, books, maps, policies, decided)
    found = node_windows(inputs, spans, given, assumed)
    assumed += decided
    arithmetic = Arithmetic(Prices(books)) if explain else None
    bill = bill_of(_charged(found, Prices(books), Teams(maps), arithmetic))
    if not inputs.recorded:
        assumed += said_missing(bill)
    explained = None if arithmetic is None else list(explanation(bill, arithmetic, decided))
    if json_:
        print(as_json(bill, assumed, inputs.scrapes, explained))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH, highlight=False)
    print_bill(console, bill, assumed)
    for text in explained or ():
        console.print(text, markup=False, soft_wrap=True)


def _charged(
    found: Iterable[NodeWindow], prices: Prices, teams: Teams, arithmetic: Arithmetic | None
) -> Iterator[Charges]:
    """The charges of windows, some at a time, with a bar where it takes long. ``arithmetic`` is told how each
    of them comes about."""
    windows_left = iter(found)
    with Progress(SpinnerColumn(), "{task.description}", TimeElapsedColumn(), console=Console(stderr=True),
                  transient=True, disable=not sys.stderr.isatty()) as progress:  # fmt: skip
        task = progress.add_task("charging")
        while some := list(islice(windows_left, WINDOWS_AT_A_TIME)):
            progress.update(task, description=f"charging {some[0].node}")
            if arithmetic is None:
                yield from charge_windows(some, prices, teams)
                continue
            for window in some:
                steps = Steps()
                (charges,) = charge_windows([window], prices, teams, steps)
                arithmetic.add(steps, charges, window.policy)
                yield charges


def _now_ns() -> int:
    return time.time_ns() // NS_PER_S * NS_PER_S
