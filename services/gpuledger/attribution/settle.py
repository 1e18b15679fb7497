"""From an explained piece to rows: its cost, divided."""

from __future__ import annotations

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey, People
from gpuledger.attribution.containers import containers_of, divided
from gpuledger.attribution.evidence import Occupation, weakest
from gpuledger.attribution.formula import (
    Category,
    Weighted,
    all_of_it,
    holders_missing,
    occupied_missing,
    pay,
    reserved_first,
)
from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.remarks import effective, remark, trust
from gpuledger.attribution.rows import Row, RowKey
from gpuledger.attribution.trace import Assigned, Divided, Trace
from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Consumer, Cost, PriceBook, TeamMap


class Ledger:
    """The rows of one window while they are summed."""

    def __init__(
        self,
        window: NodeWindow,
        people: People,
        book: PriceBook,
        teams: TeamMap,
        trace: Trace | None = None,
    ) -> None:
        self.window = window
        self.people = people
        self.book = book
        self.teams = teams
        self.rows: dict[RowKey, Row] = {}
        self.trace = trace
        self._policy = window.policy.name(window.window_length_ns)
        self._who: dict[ConsumerKey, tuple[str, str, str, str, str]] = {}

    def row(self, key: RowKey, piece: Piece) -> Row:
        """The row of that key; made from the piece where it is the first."""
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = self.new_row(key, piece)
        return found

    def new_row(self, key: RowKey, piece: Piece) -> Row:
        """A row with its texts, which is not among ``rows``."""
        slot = piece.slot
        priced = slot.priced
        namespace, pod, workload, team, cost_centre = self._names(key.consumer, piece)
        return Row(
            key,
            region=priced.region,
            zone=priced.zone,
            instance_type=priced.instance_type,
            capacity_type=priced.capacity_type,
            parent_uuid=slot.parent_uuid,
            gpu_model=priced.gpu_model,
            mig_profile=slot.cause or priced.mig_profile,
            sharing=slot.sharing,
            namespace=namespace,
            pod=pod,
            workload=workload,
            team=team,
            cost_centre=cost_centre,
            policy=self._policy,
            priced_as=priced,
        )

    def closed(self) -> list[Row]:
        """The rows that have something to say, in order, each closed."""
        rows = [self.rows[key] for key in sorted(self.rows) if not self.rows[key].empty]
        for row in rows:
            self.close(row)
        return rows

    def close(self, row: Row) -> None:
        """What is decided last: how its used time is known; and where it has no GPU time that could lack a
        price, its money is 0 of the device's currency, not unknown."""
        row.evidence = weakest(row.used_evidences or row.evidences)
        if not row.priced and not row.total_ns and row.priced_as is not None:
            _price(row, self.book.cost(row.priced_as, *self.window.life_ns), self.book.currency)

    def _names(self, key: ConsumerKey, piece: Piece) -> tuple[str, str, str, str, str]:
        """(namespace, pod, workload, team, cost centre), decided once: at its first instant."""
        found = self._who.get(key)
        if found is None:
            pod = self.people.pods.get(key.consumer)  # of a job too, where its source describes it
            facts = Consumer(
                kind=key.kind,
                cluster=self.window.cluster,
                node_pool=piece.slot.priced.node_pool,
                namespace=pod.namespace if pod else "",
                owner_kind=pod.workload_kind if pod else "",
                owner_name=pod.workload if pod else "",
                labels=pod.labels if pod else {},
                annotations=pod.annotations if pod else {},
            )
            team = self.teams.team_of(facts, piece.start_ns)
            if self.trace is not None:
                self.trace.assigned(key, Assigned(facts, piece.start_ns))
            workload = "/".join(text for text in (facts.owner_kind, facts.owner_name) if text)
            found = self._who[key] = (
                facts.namespace,
                pod.name if pod else "",
                workload,
                team.team,
                team.cost_centre,
            )
        return found

    def gap(self, device: str, piece: Piece) -> None:
        """A piece that nobody observed, or a lost device: the pool's."""
        if piece.gap:
            weighted = all_of_it(piece.gap, Category.UNOBSERVED)
        elif piece.slot.lost:
            weighted = all_of_it("device_lost", Category.UNALLOCATED)
        else:
            weighted = all_of_it(piece.slot.reason, Category.UNALLOCATED)
        self._add(device, piece, weighted, None, None)

    def observed(
        self, device: str, number: int, piece: Piece, found: Occupation, sm_active: float | None
    ) -> None:
        """A piece that was observed."""
        policy = self.window.policy
        used = {key: share.used_ns for key, share in sorted(found.shares.items()) if share.used_ns}
        if found.occupied_ns is None:
            if piece.holding.known:
                weighted = occupied_missing(piece.holding)
            else:
                weighted = all_of_it("no_sample", Category.UNOBSERVED)
        elif not piece.holding.known:
            weighted = holders_missing(piece.length_ns, used)
        elif policy.burst == "reserved_first":
            weighted = reserved_first(piece.length_ns, found.occupied_ns, used, piece.holding)
        else:
            to_pool = policy.idle != "holders"
            weighted = pay(piece.length_ns, found.occupied_ns, used, piece.holding, to_pool)
        self._add(device, piece, weighted, found, sm_active, number)

    def node(self, device: str, piece: Piece) -> None:
        """What of the node is not GPU: money without GPU time."""
        cost = self.book.cost(piece.slot.priced, piece.start_ns, piece.end_ns)
        if not cost.nano:
            return
        row = self.row(RowKey(device, THE_POOL, "", "non_gpu"), piece)
        row.nano[Category.UNALLOCATED] += cost.nano
        _price(row, cost, self.book.currency)
        row.evidences.append("none")

    def _add(
        self,
        device: str,
        piece: Piece,
        weighted: Weighted,
        found: Occupation | None,
        sm_active: float | None,
        number: int = 0,
    ) -> None:
        priced = piece.slot.priced
        cost = self.book.cost(priced, piece.start_ns, piece.end_ns)
        time = priced.gpu_ns(piece.start_ns, piece.end_ns)
        of_ns, of_nano = weighted.divide(time), weighted.divide(cost.nano)
        if self.trace is not None:
            self.trace.divided(Divided(device, piece, found, weighted, time, cost, of_ns, of_nano))
        rows: dict[tuple[ConsumerKey, str, str], Row] = {}

        def row_of(consumer: ConsumerKey, container: str, reason: str) -> Row:
            row = rows.get((consumer, container, reason))
            if row is None:
                key = RowKey(device, consumer, container, reason)
                row = rows[consumer, container, reason] = self.row(key, piece)
            return row

        amounts = zip(weighted.parts, of_ns, of_nano, weighted.divide(cost.unpriced_gpu_ns), strict=True)
        for part, ns, nano, without in amounts:
            containers = containers_of(part.consumer, part.category, piece, found)
            split = [divided(value, containers) for value in (ns, nano, without)]
            for (container, _), ns_part, nano_part, without_part in zip(containers, *split, strict=True):
                row = row_of(part.consumer, container, part.reason)
                row.ns[part.category] += ns_part
                row.nano[part.category] += nano_part
                row.unpriced_ns += without_part
                row.parts.add(number)
                _price(row, cost, self.book.currency)
                if found is not None:
                    trust(row, part, piece, found)
                    if part.category is Category.USED:
                        effective(row, ns_part, nano_part, piece, found, sm_active)
                elif not row.evidences:
                    row.evidences.append("none")
        if found is not None:
            capped = self.window.policy.burst == "reserved_first"
            remark(row_of, number, piece, found, time, cost.nano, capped)


def _price(row: Row, cost: Cost, currency: str) -> None:
    if cost.priced:
        row.priced = 1
        row.currency = currency
        row.price_ids += [entry for entry in cost.entry_ids if entry not in row.price_ids]
    if cost.provisional:
        row.flags |= Flag.PRICE_PROVISIONAL
