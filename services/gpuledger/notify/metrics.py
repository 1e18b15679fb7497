"""Every metric of notify."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY = CollectorRegistry()
DELIVERED = Counter(
    "gpuledger_notify_delivered", "Notices that a target has", ["target", "kind"], registry=REGISTRY
)
REFUSED = Counter(
    "gpuledger_notify_refused", "Notices that a target will never take", ["target"], registry=REGISTRY
)
ATTEMPTS_FAILED = Counter(
    "gpuledger_notify_attempts_failed", "Attempts that found a target away", ["target"], registry=REGISTRY
)
AWAY = Gauge(
    "gpuledger_notify_target_away",
    "1 while the last attempt found the target away",
    ["target"],
    registry=REGISTRY,
)
LAG = Gauge(
    "gpuledger_notify_lag_records",
    "Changes of breaches that the target has not got",
    ["target"],
    registry=REGISTRY,
)
