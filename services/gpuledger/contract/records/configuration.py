"""gpu.prices, gpu.teams, gpu.budgets and gpu.periods: whole numbered documents."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuledger.contract.columns import Longs, no_longs


@dataclass(slots=True)
class PriceEntry:
    """A price and what it applies to; an empty match is any."""

    id: str
    per: str
    unit_price_nano_per_hour: int
    currency: str
    effective_from_ns: int = 0
    effective_to_ns: int | None = None
    cluster: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    gpu_model: str = ""
    capacity_type: str = ""
    mig_profile: str = ""
    node_pool: str = ""
    priority: int = 0
    gpus_per_node: int = 0
    gpu_share_ppb: int = 1000000000
    discount_ppb: int = 0
    commitment: str = ""
    list_price_nano_per_hour: int | None = None
    kind: str = "list"
    details: dict[str, str] = field(default_factory=dict)
    source: str = ""
    provisional: bool = False
    commitment_quantity: int = 0


@dataclass(slots=True)
class CurrencyRate:
    """A dated exchange rate."""

    from_currency: str
    to_currency: str
    effective_from_ns: int
    rate_nano: int
    source: str = ""


@dataclass(slots=True)
class PriceBookVersion:
    """The whole price book of one version.

    Fields and units: schemas/price_book_version.avsc.
    """

    version: int
    active_from_ns: int
    created_ns: int = 0
    author: str = ""
    comment: str = ""
    document: str = ""
    document_sha256: str = ""
    restates_past: bool = False
    currency: str = "USD"
    entries: list[PriceEntry] = field(default_factory=list)
    rates: list[CurrencyRate] = field(default_factory=list)


@dataclass(slots=True)
class TeamRule:
    """Which team a consumer belongs to; an empty match is any."""

    id: str
    team: str = ""
    cost_centre: str = ""
    label_key: str = ""
    cluster: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    owner_name: str = ""
    node_pool: str = ""
    consumer_kind: str = ""
    priority: int = 0
    effective_from_ns: int = 0
    effective_to_ns: int | None = None


@dataclass(slots=True)
class PolicyRule:
    """How idle and borrowed time is shared out in a cluster; without a name in every other one."""

    id: str
    cluster: str = ""
    burst: str = "pay"
    entitlement: str = "slots"
    mig: str = "slices"
    idle: str = "holders"
    effective_from_ns: int = 0
    effective_to_ns: int | None = None


@dataclass(slots=True)
class TeamMapVersion:
    """The whole team map of one version.

    Fields and units: schemas/team_map_version.avsc.
    """

    version: int
    active_from_ns: int
    created_ns: int = 0
    author: str = ""
    comment: str = ""
    document: str = ""
    document_sha256: str = ""
    restates_past: bool = False
    default_team: str = ""
    rules: list[TeamRule] = field(default_factory=list)
    policies: list[PolicyRule] = field(default_factory=list)


@dataclass(slots=True)
class BudgetRule:
    """A rule beside plain thresholds."""

    kind: str
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Budget:
    """An amount for a scope and a period."""

    id: str
    period: str
    name: str = ""
    scope: dict[str, str] = field(default_factory=dict)
    rolling_ns: int | None = None
    fixed_from_ns: int | None = None
    fixed_to_ns: int | None = None
    time_zone: str = "UTC"
    amount_nano: int | None = None
    currency: str = ""
    amount_gpu_ns: int | None = None
    thresholds_ppm: Longs = field(default_factory=no_longs)
    counts: list[str] = field(default_factory=list)
    rules: list[BudgetRule] = field(default_factory=list)
    effective_from_ns: int = 0
    effective_to_ns: int | None = None


@dataclass(slots=True)
class BudgetsVersion:
    """All budgets of one version.

    Fields and units: schemas/budgets_version.avsc.
    """

    version: int
    active_from_ns: int
    created_ns: int = 0
    author: str = ""
    comment: str = ""
    document: str = ""
    document_sha256: str = ""
    budgets: list[Budget] = field(default_factory=list)


@dataclass(slots=True)
class PeriodsVersion:
    """Which months are closed.

    Fields and units: schemas/periods_version.avsc.
    """

    version: int
    active_from_ns: int
    closed_through: str
    created_ns: int = 0
    author: str = ""
    comment: str = ""
