"""charges(window) = f(the node's records of that window, the configuration), for many windows in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuledger.attribution.abreast import Abreast, Facts, charge_abreast, write
from gpuledger.attribution.beside import add_usage, finish
from gpuledger.attribution.charges import Charges, sums_of
from gpuledger.attribution.devices import Slot, gpu_count, gpus_of, priced_node, slots_of
from gpuledger.attribution.evidence import explain
from gpuledger.attribution.frames import Frames
from gpuledger.attribution.gather import Prepared, gather, prepare
from gpuledger.attribution.holding import Holding, keepers_of
from gpuledger.attribution.meaning import MAX_PAIRS, check_pairs, check_window
from gpuledger.attribution.outstanding import outstanding
from gpuledger.attribution.percentages import percentages_of
from gpuledger.attribution.pieces import Piece, cut_unsampled, is_open, pieces_of, with_memory
from gpuledger.attribution.residency import MemoryShares, Owners, residency
from gpuledger.attribution.samples import gather_samples
from gpuledger.attribution.settle import Ledger
from gpuledger.attribution.sharing import processor_sharing
from gpuledger.attribution.silicon import Bools, Silicon, Stuck
from gpuledger.attribution.timeline import Span, ordered, timeline
from gpuledger.attribution.trace import Trace
from gpuledger.attribution.unknown import resolve_unknown
from gpuledger.attribution.usage import usage
from gpuledger.attribution.views import Views, cells_of_pieces, device_lengths, sampled_holes
from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.records import ChargeSet
from gpuledger.contract.rows import NODE_DEVICE, Flag
from gpuledger.pricing import PriceBook, PricedDevice, Prices, Teams

PASS_EVENTS = 1 << 19  # of windows side by side: columns of 4 MB, whose pages the allocator keeps


def charge_window(window: NodeWindow, prices: Prices, teams: Teams) -> Charges:
    """The charges of one window; see ``charge_windows``."""
    return charge_windows([window], prices, teams)[0]


def charge_windows(
    windows: Sequence[NodeWindow],
    prices: Prices,
    teams: Teams,
    trace: Trace | None = None,
    frames: Frames | None = None,
) -> list[Charges]:
    """The charges of each window, in the order given; ``trace`` is told how they come about. ``frames`` keeps
    what nodes repeat from one call to the next: then nobody may change what the records share.

    A window's charges depend on its own records and the configuration alone, to the byte: neither on the
    order of its records nor on which other windows are charged with it. Raises Refused where a window pins
    a version of prices or teams that is not known, BadRecord where its records are more than a window may
    cost (meaning.py).
    """
    ledgers: list[Ledger] = []
    ready: list[Prepared] = []
    frames = frames or Frames()
    for window in windows:
        check_window(window)
        book = prices.at(window.window_start_ns, window.price_version)
        team_map = teams.at(window.window_start_ns, window.team_version)
        records = ordered(window)
        line = timeline(window, records)
        prepared = None if trace else frames.prepared(window, records, line, book)
        if prepared is None:
            pieces = pieces_of(line.spans, window.cluster, book, bool(records.events), window.policy.mig)
            prepared = prepare(window, records, line, pieces)
        check_pairs(len(prepared.people.processes), prepared.width)
        ready.append(prepared)
        ledgers.append(Ledger(window, prepared.people, book, team_map, trace))
    return [charges for part in _passes(ready) for charges in _charged(ready[part], ledgers[part])]


def _charged(ready: Sequence[Prepared], ledgers: Sequence[Ledger]) -> list[Charges]:
    """The windows of one pass."""
    abreast = _fill(ready, ledgers)
    sets = [_charge_set(prepared, ledger) for prepared, ledger in zip(ready, ledgers, strict=True)]
    write(sets, ready, ledgers, [ledger.closed() for ledger in ledgers], abreast)
    return [
        _checked(prepared, ledger.book, charge_set, total)
        for prepared, ledger, charge_set, total in zip(ready, ledgers, sets, sums_of(sets), strict=True)
    ]


def _passes(ready: Sequence[Prepared]) -> Iterator[slice]:
    """The windows in runs whose columns, laid side by side, stay in bounds."""
    first = events = pairs = 0
    for at, prepared in enumerate(ready):
        more_events = sum(len(batch.time_ns) for batch in prepared.records.events)
        if at > first and (events + more_events > PASS_EVENTS or pairs + prepared.pairs > MAX_PAIRS):
            yield slice(first, at)
            first, events, pairs = at, 0, 0
        events += more_events
        pairs += prepared.pairs
    yield slice(first, len(ready))


def _fill(ready: Sequence[Prepared], ledgers: Sequence[Ledger]) -> Abreast | None:
    """All rows of all windows: those that are returned, and those in the ledgers."""
    columns = gather(ready)
    resolve_unknown(columns)
    samples = gather_samples(ready)
    lengths = device_lengths(ready, columns.devices)
    for hole in sampled_holes(ready, samples, lengths):
        _cut(ready, hole.device, hole.start, hole.end)
    mapped = cells_of_pieces(ready, samples, columns.devices)
    percentages = percentages_of(ready, mapped, columns.pairs)
    shares = processor_sharing(outstanding(columns), columns.pair_device, mapped.cells, percentages)
    used = usage(columns)
    silicon = Silicon(samples, mapped)
    known = Facts(columns, samples, mapped, shares, lengths, used, silicon)
    abreast, done = charge_abreast(ready, ledgers, known)
    single = [_any_open(prepared, done) for prepared in ready]
    views = Views(columns, samples, mapped, shares, lengths, done)
    owners = Owners(columns, single)
    resident = residency(columns, owners.of_pair, single)
    memory = MemoryShares(owners, resident)
    stuck: Stuck = set()
    for index, (prepared, ledger) in enumerate(zip(ready, ledgers, strict=True)):
        if prepared.window.policy.entitlement == "max(slots,memory)":
            _entitle_by_memory(index, prepared, memory)
        _settle(prepared, ledger, views, stuck, done)
    add_usage(columns, ledgers, owners, used, resident, done)
    for prepared, ledger in zip(ready, ledgers, strict=True):
        silicon.add(prepared, ledger, stuck, done)
        finish(prepared, ledger)
    return abreast


def _any_open(prepared: Prepared, done: Bools) -> bool:
    """Whether a device that consumers can use is still to be charged."""
    first = prepared.first_device
    return prepared.frame is None or not prepared.devices or not done[first : first + prepared.unknown].all()


def _entitle_by_memory(index: int, prepared: Prepared, memory: MemoryShares) -> None:
    for number, device in enumerate(prepared.devices):
        for place, piece in enumerate(device.pieces):
            if piece.holding.entitlements and is_open(piece):
                device.pieces[place] = with_memory(piece, memory.of(index, prepared, number, piece))


def _cut(ready: Sequence[Prepared], place: int, start: int, end: int) -> None:
    firsts = [prepared.first_device for prepared in ready]
    prepared = ready[int(np.searchsorted(firsts, place, side="right")) - 1]
    number = place - prepared.first_device
    if number < len(prepared.devices):
        origin = prepared.window.window_start_ns
        device = prepared.devices[number]
        cut = cut_unsampled(device.pieces, [(origin + start, origin + end)])
        prepared.devices[number] = device._replace(pieces=cut)


def _settle(prepared: Prepared, ledger: Ledger, views: Views, stuck: Stuck, done: Bools) -> None:
    for number, device in enumerate(prepared.devices):
        place = prepared.first_device + number
        if done[place]:
            continue
        for index, piece in enumerate(device.pieces):
            if not is_open(piece):
                ledger.gap(device.key.uuid, piece)
                continue
            seen = views.device(place, index)
            processes = views.processes(prepared, number, index)
            found = explain(piece, seen, processes)
            sm_active = seen.sm_active
            if sm_active == 0.0 and found.flags & Flag.SIGNALS_DISAGREE:
                stuck.add((place, index))
                sm_active = None
            ledger.observed(device.key.uuid, index, piece, found, sm_active)
    for span, node in _node_spans(prepared, ledger.book):
        if not ledger.book.cost_nano(node, span.start_ns, span.end_ns):
            continue
        slot = Slot(NODE_DEVICE, -1, node, sharing="none")
        ledger.node(NODE_DEVICE, Piece(span.start_ns, span.end_ns, slot, Holding()))


def _node_spans(prepared: Prepared, book: PriceBook) -> list[tuple[Span, PricedDevice]]:
    """The window cut where what the node is paid for changes, equal neighbours merged."""
    found: list[tuple[Span, PricedDevice]] = []
    if prepared.frame is not None:
        return [(prepared.timeline.spans[0], prepared.frame.node)]
    for span in prepared.timeline.spans:
        if span.layout is None:
            continue
        gpus = gpus_of(span.layout)
        node = priced_node(span.layout, prepared.window.cluster, gpus[0].model if gpus else "")
        count = gpu_count(span.layout, prepared.window.cluster, book, span.start_ns, span.end_ns)
        node = node.with_gpus(count)
        if found and found[-1][1] == node and found[-1][0].end_ns == span.start_ns:
            found[-1] = found[-1][0]._replace(end_ns=span.end_ns), node
        else:
            found.append((span, node))
    return found


def _charge_set(prepared: Prepared, ledger: Ledger) -> ChargeSet:
    window = prepared.window
    revision = window.revision
    keepers, keepers_count = keepers_of(span.state for span in prepared.timeline.spans)
    month = np.datetime64(window.window_start_ns, "ns").astype("datetime64[M]")
    ranges = sorted(window.offset_ranges)
    return ChargeSet(
        cluster=window.cluster,
        node=window.node,
        window_start_ns=window.window_start_ns,
        window_length_ns=window.window_length_ns,
        generation=revision.generation,
        inputs=revision.inputs,
        digest=revision.digest,
        core_version=revision.core,
        state=window.state,
        price_version=ledger.book.version,
        team_version=ledger.teams.version,
        booking_period=str(month),
        partition=window.partition,
        offset_starts=np.array([first for first, _ in ranges], np.int64),
        offset_counts=np.array([count for _, count in ranges], np.int64),
        keepers=keepers,
        keepers_count=keepers_count,
    )


def _node_money(prepared: Prepared, book: PriceBook, span: Span) -> int:
    """What the node costs over a span: the price of the whole node, or of a GPU times the GPUs. Where the
    GPUs differ in what prices match, the sum of their prices and of what is not GPU."""
    layout, cluster, frame = span.layout, prepared.window.cluster, prepared.frame
    if layout is None:
        return 0
    if frame is not None and frame.alike and not book.knows_profiles:
        return book.node_cost_nano(frame.node, span.start_ns, span.end_ns)
    count = gpu_count(layout, cluster, book, span.start_ns, span.end_ns)
    models = {gpu.model for gpu in gpus_of(layout)}
    node = priced_node(layout, cluster, min(models, default="")).with_gpus(count)
    if len(models) <= 1 and not book.knows_profiles:
        return book.node_cost_nano(node, span.start_ns, span.end_ns)
    devices = [slot.priced for slot in slots_of(layout, cluster, count, prepared.window.policy.mig)]
    gpus = gpus_of(layout)  # none where the driver was not there: the node is paid for them all the same
    node = priced_node(layout, cluster, gpus[0].model if gpus else "").with_gpus(count)
    return sum(book.cost_nano(device, span.start_ns, span.end_ns) for device in (*devices, node))


def _checked(prepared: Prepared, book: PriceBook, record: ChargeSet, total: tuple[int, int]) -> Charges:
    """The charges with how far the rows' sums, ``total``, are from what the node costs, which is computed
    without any split."""
    money = time = 0
    for span in prepared.timeline.spans:
        if span.layout is None:
            continue
        count = prepared.frame.node.gpu_count if prepared.frame is not None else _gpus(prepared, book, span)
        time += (span.end_ns - span.start_ns) * count
        money += _node_money(prepared, book, span)
    return Charges(record, total[0] - money, total[1] - time)


def _gpus(prepared: Prepared, book: PriceBook, span: Span) -> int:
    assert span.layout is not None
    return gpu_count(span.layout, prepared.window.cluster, book, span.start_ns, span.end_ns)
