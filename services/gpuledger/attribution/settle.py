"""From an explained piece to rows: cost, split, borrowed, effective, usage."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from gpuledger.attribution.consumers import THE_POOL, ConsumerKey, People
from gpuledger.attribution.evidence import Occupation, weakest
from gpuledger.attribution.formula import (
    Category,
    Part,
    Weighted,
    all_of_it,
    holders_missing,
    largest_remainder,
    occupied_missing,
    pay,
)
from gpuledger.attribution.pieces import Piece
from gpuledger.attribution.rows import Row, RowKey
from gpuledger.attribution.window import NodeWindow
from gpuledger.contract.rows import Flag
from gpuledger.pricing import Consumer, Cost, PriceBook, TeamMap

PPB = 1_000_000_000  # SM active is taken to 1e-9, so that its product with an amount is one of integers


class Ledger:
    """The rows of one window while they are summed."""

    def __init__(self, window: NodeWindow, people: People, book: PriceBook, teams: TeamMap) -> None:
        self.window = window
        self.people = people
        self.book = book
        self.teams = teams
        self.rows: dict[RowKey, Row] = {}
        self._policy = window.policy.name(window.window_length_ns)
        self._who: dict[ConsumerKey, tuple[str, str, str, str, str]] = {}

    def row(self, key: RowKey, piece: Piece) -> Row:
        """The row of that key; made from the piece where it is the first."""
        found = self.rows.get(key)
        if found is None:
            slot = piece.slot
            priced = slot.priced
            namespace, pod, workload, team, cost_centre = self._names(key.consumer, piece)
            found = self.rows[key] = Row(
                key,
                region=priced.region,
                zone=priced.zone,
                instance_type=priced.instance_type,
                capacity_type=priced.capacity_type,
                parent_uuid=slot.parent_uuid,
                gpu_model=priced.gpu_model,
                mig_profile=priced.mig_profile,
                sharing=slot.sharing,
                namespace=namespace,
                pod=pod,
                workload=workload,
                team=team,
                cost_centre=cost_centre,
                policy=self._policy,
                priced_as=priced,
            )
        return found

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
            weighted = all_of_it("free", Category.UNALLOCATED)
        self._add(device, piece, weighted, None, None)

    def observed(
        self, device: str, number: int, piece: Piece, found: Occupation, sm_active: float | None
    ) -> None:
        """A piece that was observed."""
        used = {key: share.used_ns for key, share in sorted(found.shares.items()) if share.used_ns}
        if found.occupied_ns is None:
            if piece.holding.known:
                weighted = occupied_missing(piece.holding)
            else:
                weighted = all_of_it("no_sample", Category.UNOBSERVED)
        elif not piece.holding.known:
            weighted = holders_missing(piece.length_ns, used)
        else:
            weighted = pay(piece.length_ns, found.occupied_ns, used, piece.holding)
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
        unpriced = time * cost.unpriced_ns // piece.length_ns
        amounts = zip(
            weighted.parts,
            weighted.divide(time),
            weighted.divide(cost.nano),
            weighted.divide(unpriced),
            strict=True,
        )
        for part, ns, nano, without in amounts:
            containers = self._containers(part.consumer, part.category, piece, found)
            split = [_split(value, containers) for value in (ns, nano, without)]
            for (container, _), ns_part, nano_part, without_part in zip(containers, *split, strict=True):
                row = self.row(RowKey(device, part.consumer, container, part.reason), piece)
                row.ns[part.category] += ns_part
                row.nano[part.category] += nano_part
                row.unpriced_ns += without_part
                row.parts.add(number)
                _price(row, cost, self.book.currency)
                if found is not None:
                    self._trust(row, part, piece, found)
                    if part.category is Category.USED:
                        _effective(row, ns_part, nano_part, piece, found, sm_active)
                elif not row.evidences:
                    row.evidences.append("none")
        if found is not None:
            self._beside(device, number, piece, found, time, cost)

    def _containers(
        self, consumer: ConsumerKey, category: Category, piece: Piece, found: Occupation | None
    ) -> Sequence[tuple[str, int]]:
        """How a consumer's containers share a part: what they used, else the slots they were given."""
        if consumer == THE_POOL:
            return [("", 1)]
        share = found.shares.get(consumer) if found else None
        if category is Category.USED and share is not None:
            busy = [(name, weight) for name, weight in sorted(share.containers.items()) if weight]
            if busy:
                return busy
        for entitlement in piece.holding.entitlements:
            if entitlement.consumer == consumer:
                return entitlement.containers
        names = sorted(share.containers) if share else []
        return [(names[0] if names else "", 1)]

    def _trust(self, row: Row, part: Part, piece: Piece, found: Occupation) -> None:
        share = found.shares.get(part.consumer)
        evidence = share.evidence if share else found.evidence
        (row.used_evidences if part.category is Category.USED else row.evidences).append(evidence)
        row.flags |= found.flags | (share.flags if share else Flag(0))
        if piece.holding.overbooked:
            row.flags |= Flag.OVERBOOKED

    def _beside(
        self, device: str, number: int, piece: Piece, found: Occupation, time: int, cost: Cost
    ) -> None:
        """What stands beside the sum: busy time, bounds, what was borrowed, who was not booked."""
        holding = piece.holding
        weights = {entitlement.consumer: entitlement.weight for entitlement in holding.entitlements}
        length = piece.length_ns
        intruded = bool(weights) and any(
            share.used_ns for key, share in found.shares.items() if key not in weights
        )
        for key in sorted({*found.shares, *weights}):
            share = found.shares.get(key)
            containers = self._containers(key, Category.USED, piece, found)
            above = max(0, share.used_ns * holding.denominator - weights.get(key, 0) * length) if share else 0
            values = (
                share.busy_ns if share else 0,
                time * share.low_ns // length if share else 0,
                -(-time * share.high_ns // length) if share else 0,
                time * above // (length * holding.denominator),
                cost.nano * above // (length * holding.denominator),
            )
            parts = [_split(value, containers) for value in values]
            for index, (container, _) in enumerate(containers):
                row = self.row(RowKey(device, key, container, "none"), piece)
                busy, low, high, borrowed_ns, borrowed_nano = (part[index] for part in parts)
                row.busy_ns += busy
                row.confidence_low_ns += low
                row.confidence_high_ns += high
                if holding.known:
                    row.borrowed_ns += borrowed_ns
                    row.borrowed_nano += borrowed_nano
                row.parts.add(number)
                if not row.evidences or share is None:
                    row.evidences.append(share.evidence if share else found.evidence)
                if key not in weights and holding.known:
                    row.flags |= Flag.OFF_THE_BOOKS
                    if intruded and share is not None and share.used_ns:
                        row.flags |= Flag.INTRUDER
                elif intruded:
                    row.flags |= Flag.INTRUDER
        self._entitle(device, number, piece, "none" if found.occupied_ns is not None else "no_sample")

    def _entitle(self, device: str, number: int, piece: Piece, reason: str) -> None:
        """A piece's entitlements to the rows that pay for them: a pod's to its containers by their slots."""
        for consumer, weight, containers, _ in piece.holding.entitlements:
            whole = sum(slots for _, slots in containers)
            for container, slots in containers:
                row = self.row(RowKey(device, consumer, container, reason), piece)
                row.entitlement_ns += weight / piece.holding.denominator * slots / whole * piece.length_ns
                row.parts.add(number)


def _split(value: int, containers: Sequence[tuple[str, int]]) -> list[int]:
    """A consumer's amount over its containers, by largest remainder."""
    if len(containers) == 1:
        return [value]
    weights = [weight for _, weight in containers]
    return largest_remainder(value, weights, sum(weights))


def _price(row: Row, cost: Cost, currency: str) -> None:
    if cost.priced:
        row.priced = 1
        row.currency = currency
        row.price_ids += [entry for entry in cost.entry_ids if entry not in row.price_ids]


def _effective(
    row: Row, ns: int, nano: int, piece: Piece, found: Occupation, sm_active: float | None
) -> None:
    """Effectively used = C x SM active, at most used; only where the device's value is one consumer's.
    Where SM-time is shared it equals used."""
    if piece.slot.by_sm_time:
        row.effective_known = 1
        row.effectively_used_ns += ns
        row.effectively_used_nano += nano
        return
    users = [key for key, share in found.shares.items() if share.used_ns]
    if piece.slot.sharing == "time_slicing" or len(users) != 1 or sm_active is None or isnan(sm_active):
        return
    ratio = min(PPB, round(sm_active * PPB) * piece.length_ns // found.shares[users[0]].used_ns)
    row.effective_known = 1
    row.effectively_used_ns += ns * ratio // PPB
    row.effectively_used_nano += nano * ratio // PPB
