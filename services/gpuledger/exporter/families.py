"""Rows of the ledger as metric families: pure. A value that is not known has no sample; it is never 0."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily

from gpuledger.exporter.groups import OTHER, folded, largest
from gpuledger.exporter.question import DEVICE, EVIDENCE, MONTH, NODE, POD, RECENT_S, SCOPES, Parts, Row

MS_PER_S = 1_000
NS_PER_MS = 1_000_000
NS_PER_HOUR = 3_600_000_000_000
MS_PER_HOUR = 3_600_000
LAST_XID = 255  # NVIDIA's catalogue of XID errors ends below; so many codes at most are told above a limit


@dataclass(frozen=True)
class Limits:
    """How many groups are told by name; all others of a cluster are together under the name ``other``."""

    teams: int = 200  # with four parts and two currencies some 5,000 series
    pods: int = 500  # the most idle ones
    nodes: int = 200  # the least observed ones
    devices: int = 200  # with an XID error, each code by itself
    budgets: int = 500  # those with the least left


def families(rows: Sequence[Row], now_ms: int, limits: Limits) -> list[GaugeMetricFamily]:
    """All metrics of the ledger, as of ``now_ms`` (since the Unix epoch)."""
    rows, folded_teams = _few_teams(rows, limits.teams)
    by_scope = {scope: [row for row in rows if row.scope == scope] for scope in SCOPES}
    covered_ms = _covered(by_scope[EVIDENCE])
    pods, folded_pods = _few(
        by_scope[POD],
        _pod,
        lambda r: r.ns.held_idle,
        limits.pods,
        lambda r: r._replace(namespace=OTHER, pod=OTHER),
    )
    nodes, folded_nodes = _few(
        by_scope[NODE], _node, lambda r: r.ns.unobserved, limits.nodes, lambda r: r._replace(node=OTHER)
    )
    devices, folded_devices = _few(by_scope[DEVICE], _device, lambda r: 1, limits.devices, _other_device)
    cut = {"team": folded_teams, "pod": folded_pods, "node": folded_nodes, "device": folded_devices}
    return [
        *_month(by_scope[MONTH]),
        *_rates(by_scope[EVIDENCE], covered_ms),
        *_trust(by_scope[EVIDENCE]),
        *_pods(pods, covered_ms),
        _family(
            "node_unobserved_ratio",
            "Share of the node's GPU time of the last hour that nobody knows about",
            ("cluster", "node"),
            [((r.cluster, r.node), r.ns.unobserved / r.total_ns) for r in nodes],
        ),
        _family(
            "device_xid",
            "1 for each XID error that the device had in the last hour",
            ("cluster", "node", "device", "xid"),
            [((r.cluster, r.node, r.device, str(r.xid or OTHER)), 1) for r in devices],
        ),
        _age([*by_scope[EVIDENCE], *by_scope[MONTH]], now_ms),
        _family(
            "exporter_folded_groups",
            "Groups that a limit put together as `other`",
            ("of",),
            [((of,), count) for of, count in cut.items()],
        ),
    ]


def _month(rows: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    by_team = folded(rows, lambda r: (r.cluster, r.team)).values()
    yield _parts(
        "spend_month",
        "Money of the UTC month so far, in `currency`",
        ("cluster", "team", "currency"),
        [((r.cluster, r.team, r.currency), r.money, 1) for r in folded(rows, _money_key).values()],
    )
    yield _parts(
        "gpu_hours_month",
        "GPU-hours of the UTC month so far",
        ("cluster", "team"),
        [((r.cluster, r.team), r.ns, NS_PER_HOUR) for r in by_team],
    )


def _rates(rows: Sequence[Row], covered_ms: dict[str, int]) -> Iterator[GaugeMetricFamily]:
    by_team = folded(rows, lambda r: (r.cluster, r.team)).values()
    yield _parts(
        "spend_per_hour",
        "Money an hour, in `currency`, as a mean of the last hour",
        ("cluster", "team", "currency"),
        [
            ((r.cluster, r.team, r.currency), r.money, covered_ms[r.cluster] / MS_PER_HOUR)
            for r in folded(rows, _money_key).values()
        ],
    )
    yield _parts(
        "gpus",
        "Mean number of GPUs over the last hour",
        ("cluster", "team"),
        [((r.cluster, r.team), r.ns, covered_ms[r.cluster] * NS_PER_MS) for r in by_team],
    )
    yield _family(
        "unpriced_gpus",
        "Those of them that no price is known for",
        ("cluster", "team"),
        [((r.cluster, r.team), r.unpriced_ns / (covered_ms[r.cluster] * NS_PER_MS)) for r in by_team],
    )


def _trust(rows: Sequence[Row]) -> Iterator[GaugeMetricFamily]:
    by_team = folded(rows, lambda r: (r.cluster, r.team))
    by_evidence = folded(rows, lambda r: (r.cluster, r.team, r.evidence)).values()
    yield _family(
        "evidence_ratio",
        "Share of the used GPU time of the last hour that rests on this evidence",
        ("cluster", "team", "evidence"),
        [
            ((r.cluster, r.team, r.evidence), r.ns.used / used)
            for r in by_evidence
            if (used := by_team[r.cluster, r.team].ns.used) and r.ns.used
        ],
    )
    yield _family(
        "completeness_ratio",
        "Share of the last hour that was observed, weighted with GPU time",
        ("cluster", "team"),
        [((r.cluster, r.team), r.completeness) for r in by_team.values() if r.completeness is not None],
    )
    by_cluster = folded(rows, lambda r: r.cluster).values()
    yield _family(
        "cluster_completeness_ratio",
        "The same of the whole cluster",
        ("cluster",),
        [((r.cluster,), r.completeness) for r in by_cluster if r.completeness is not None],
    )


def _pods(rows: Sequence[Row], covered_ms: dict[str, int]) -> Iterator[GaugeMetricFamily]:
    names = ("cluster", "team", "namespace", "pod")
    each = [((r.cluster, r.team, r.namespace, r.pod), r) for r in folded(rows, _pod).values()]
    held = [(key, r) for key, r in each if r.ns.used + r.ns.held_idle]
    yield _family(
        "pod_held_idle_per_hour",
        "Money an hour for what the pod held and did not use",
        (*names, "currency"),
        [
            ((*_pod(r), r.currency), float(r.money.held_idle) * MS_PER_HOUR / covered_ms[r.cluster])
            for r in folded(rows, lambda r: (*_pod(r), r.currency)).values()
            if r.money.held_idle is not None
        ],
    )
    yield _family(
        "pod_used_ratio",
        "Used share of what the pod held or used in the last hour",
        names,
        [(key, r.ns.used / (r.ns.used + r.ns.held_idle)) for key, r in held],
    )
    yield _family(
        "pod_present_ratio",
        "Share of the last hour between the pod's first and last window",
        names,
        [(key, (r.end_ms - r.first_ms) / (RECENT_S * MS_PER_S)) for key, r in held],
    )


def _age(rows: Iterable[Row], now_ms: int) -> GaugeMetricFamily:
    newest = folded(rows, lambda r: r.cluster)
    return _family(
        "ledger_age_seconds",
        "Age of the newest window in the ledger",
        ("cluster",),
        [((cluster,), max(0, now_ms - r.end_ms) / MS_PER_S) for cluster, r in newest.items()],
    )


def _few_teams(rows: Sequence[Row], limit: int) -> tuple[list[Row], int]:
    """Teams have one choice for all metrics: those with the most GPU time of the month."""
    teams = [row for row in rows if row.scope in (MONTH, EVIDENCE)]
    kept = largest(teams, lambda r: (r.cluster, r.team), lambda r: r.total_ns, limit)
    all_of_them = {(r.cluster, r.team) for r in teams}
    named = [
        r if (r.cluster, r.team) in kept or r.scope in (NODE, DEVICE) else r._replace(team=OTHER)
        for r in rows
    ]
    return named, len(all_of_them - kept)


def _few(
    rows: Sequence[Row],
    key: Callable[[Row], Hashable],
    size: Callable[[Row], int],
    limit: int,
    other: Callable[[Row], Row],
) -> tuple[list[Row], int]:
    kept = largest(rows, key, size, limit)
    named = [row if key(row) in kept else other(row) for row in rows]
    return list(folded(named, lambda r: (key(r), r.currency)).values()), len({key(r) for r in rows} - kept)


def _covered(rows: Iterable[Row]) -> dict[str, int]:
    """How long the cluster's windows of the last hour are together, ms: a ledger that lags tells no less."""
    return {cluster: r.end_ms - r.first_ms for cluster, r in folded(rows, lambda r: r.cluster).items()}


def _money_key(row: Row) -> tuple[str, str, str]:
    return row.cluster, row.team, row.currency


def _pod(row: Row) -> tuple[str, str, str, str]:
    return row.cluster, row.team, row.namespace, row.pod


def _node(row: Row) -> tuple[str, str]:
    return row.cluster, row.node


def _other_device(row: Row) -> Row:
    """Its error stays known, so that the limit hides none of the hardware."""
    return row._replace(node=OTHER, device=OTHER, xid=row.xid if row.xid <= LAST_XID else 0)


def _device(row: Row) -> tuple[str, str, str, int]:
    return row.cluster, row.node, row.device, row.xid


def _family(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"gpuledger_{name}", text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _parts(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], Parts, float]]
) -> GaugeMetricFamily:
    """One sample for each part; Prometheus has floats, so here and nowhere before money becomes one."""
    return _family(
        name,
        text,
        (*labels, "part"),
        [
            ((*values, part), float(amount) / divisor)
            for values, parts, divisor in samples
            for part, amount in zip(Parts._fields, parts, strict=True)
            if amount is not None
        ],
    )
