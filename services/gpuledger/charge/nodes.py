"""The windows of each node: from an agent's own records, or from scrapes and listings and what is assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from gpuledger.attribution import NodeWindow
from gpuledger.charge.devices import devices_of, say_memory
from gpuledger.charge.holders import devices_in
from gpuledger.charge.inputs import Inputs
from gpuledger.charge.placing import on_node
from gpuledger.charge.policies import Policies, Start
from gpuledger.charge.recorded import windows_of
from gpuledger.charge.scrapes import Scrape, Stretch
from gpuledger.charge.windows import Place, windows, with_scrapes
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Device, NodeLayout, PriceBookVersion, TeamMapVersion
from gpuledger.pricing.devices import ON_DEMAND

_SEQUENCE_OF_SCRAPES = 1 << 30  # behind every record that an agent sent for the window
_UNNAMED = "node"  # of which no label says its name


class Given(NamedTuple):
    """Options that fill in what files leave open; ``told`` is what they say of the nodes. ``decided`` gets
    what was decided of policies, in words."""

    place: Place
    told: NodeLayout
    replicas: int | None
    for_ns: int | None
    gpu_model: str
    books: Sequence[PriceBookVersion]
    maps: Sequence[TeamMapVersion]
    policies: Policies
    decided: list[str]


def node_windows(
    inputs: Inputs, spans: Sequence[Stretch], given: Given, assumed: list[str]
) -> Iterable[NodeWindow]:
    """The windows of all nodes; every assumption is in ``assumed`` before the first. Raises ConfigError."""
    if not given.maps:
        assumed.append("no --teams: a pod's team is its label team, else its namespace")
    if inputs.recorded:
        recorded = _recorded(inputs, spans, given, assumed)
        given.decided.extend(given.policies.decided(map(_start, recorded)))
        return _with_policies(recorded, given.policies)
    if given.books and not given.told.capacity_type:
        assumed.append(f"the nodes are {ON_DEMAND} (no --capacity-type)")
    found = _from_files(inputs, spans, given, assumed)
    begin, end = spans[0].start_ns, spans[-1].end_ns
    instants = {begin, *(at for at in given.policies.instants_ns if begin < at < end)}
    starts = [Start(given.place.cluster, at) for at in instants]
    given.decided.extend(given.policies.decided(starts))
    return _with_policies(found, given.policies)


def _start(window: NodeWindow) -> Start:
    return Start(window.cluster, window.window_start_ns)


def _with_policies(found: Iterable[NodeWindow], policies: Policies) -> Iterator[NodeWindow]:
    for window in found:
        yield replace(window, policy=policies.at(_start(window)))


def _recorded(inputs: Inputs, spans: Sequence[Stretch], given: Given, assumed: list[str]) -> list[NodeWindow]:
    """Windows of an agent's own records, with what scrapes say beside them."""
    if not inputs.stated.empty:
        raise ConfigError("an agent's records state their holders themselves; leave out the other --holdings")
    found = windows_of(inputs.recorded)
    layouts = [state.layout for window in found for state in window.holdings]
    if not layouts:
        raise ConfigError("events and samples of an agent need its Holdings records: give them as --holdings")
    unused = _options(given)
    if unused:
        assumed.append(f"{', '.join(unused)}: not used, an agent's records say it themselves")
    if given.books and not all(layout.capacity_type for layout in layouts):
        assumed.append(f"nodes of which the records do not say their capacity type are {ON_DEMAND}")
    if inputs.scrapes:
        assumed.append("the scrapes are taken to be of the node that sent the records")
        found = with_scrapes(found, spans, _SEQUENCE_OF_SCRAPES)
    return found


def _options(given: Given) -> list[str]:
    """The options that were given and that an agent's records leave no room for."""
    told = given.told
    stated = {
        "--cluster": given.place.cluster,
        "--node": given.place.node,
        "--instance-type": told.instance_type,
        "--capacity-type": told.capacity_type,
        "--region": told.region,
        "--zone": told.zone,
        "--node-pool": told.node_pool,
        "--gpu-model": given.gpu_model,
        "--replicas": given.replicas,
    }
    return [option for option, value in stated.items() if value]


def _from_files(
    inputs: Inputs, spans: Sequence[Stretch], given: Given, assumed: list[str]
) -> Iterator[NodeWindow]:
    """Windows of each node that scrapes or listings name."""
    nodes = _nodes(inputs, given, assumed)
    _say_times(inputs.scrapes, given.for_ns, assumed)
    labelled = [holder for scrape in inputs.scrapes for holder in scrape.exposition.holders]
    cuts = _instants_of(given.maps)
    ready = []
    for name, devices in nodes.items():
        layout = NodeLayout(
            **{
                slot: getattr(given.told, slot)
                for slot in NodeLayout.__slots__
                if slot not in ("devices", "labels")
            },
            devices=devices,
        )
        _say_node(name, devices, given.books, assumed)
        uuids = {device.uuid for device in devices}
        mine = [holder for holder in dict.fromkeys(labelled) if holder.uuid in uuids]
        on = on_node(inputs.stated, name, layout, mine, given.replicas)
        assumed += on.assumed
        say_memory(on.layout.devices, inputs.scrapes, given.policies.by_memory, name, assumed)
        ready.append(windows(Place(given.place.cluster, name), on, spans, cuts))
    return chain.from_iterable(ready)


def _nodes(inputs: Inputs, given: Given, assumed: list[str]) -> dict[str, list[Device]]:
    """The devices of each node."""
    nodes = devices_of(inputs.scrapes, given.place.node)
    known = {device.uuid for devices in nodes.values() for device in devices}
    more = devices_in(inputs.stated, known, given.gpu_model)
    if more:
        name = given.place.node or next(iter(nodes), _UNNAMED)
        if len(nodes) > 1:
            raise ConfigError(
                "the listing has GPUs that no scrape shows, of several nodes: say which with --node"
            )
        nodes[name] = [*nodes.get(name, []), *more]
        assumed.append(
            f"{name}: {len(more)} GPUs of the listing are in no scrape: what ran on them is not known"
        )
        if given.gpu_model:
            assumed.append(f"{name}: these GPUs are of model {given.gpu_model} (--gpu-model)")
    if not nodes:
        raise ConfigError("no GPU is known: the pods' listing names none, give --samples or PodResources")
    return nodes


def _say_node(
    name: str, devices: Sequence[Device], books: Sequence[PriceBookVersion], assumed: list[str]
) -> None:
    if name == _UNNAMED:
        assumed.append(f"no label names the node: it is called {_UNNAMED} (say it: --node)")
    whole = [entry for book in books for entry in book.entries if entry.per == "node"]
    if whole and not all(entry.gpus_per_node for entry in whole):
        gpus = sum(1 for device in devices if not device.parent_uuid)
        assumed.append(f"{name}: a price per node is for the {gpus} GPUs that the files show")


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
        if scrape.exposition.cut_values:
            count = scrape.exposition.cut_values
            assumed.append(f"{scrape.path.name}: {count} values above 100 % are taken for 100 %")
    if not scrapes:
        assumed.append("no scrape: what ran is not known, only who held what")
    if for_ns is None and len(scrapes) < 2:
        assumed.append("the time charged is 1 h (no --for)")
    if len(scrapes) == 1:
        assumed.append("all of the time was as the one scrape shows it")
    elif scrapes:
        assumed.append("each scrape speaks for all of the time since the one before")
    assumed.append("who holds what was the same all the time")
