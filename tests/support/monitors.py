"""The parts of the Prometheus operator's PodMonitor and ServiceMonitor (v1) that manifests here may use.

After pkg/apis/monitoring/v1 of the operator; its CRD refuses unknown fields, and so does this.
"""

from __future__ import annotations

from typing import Any

_LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION = {"type": "string", "pattern": r"^(\d+h)?(\d+m)?(\d+s)?$", "minLength": 2}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


_EXPRESSION = _closed(
    ["key", "operator"],
    key={"type": "string"},
    operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    values={"type": "array", "items": {"type": "string"}},
)
_SELECTOR = _closed([], matchLabels=_LABELS, matchExpressions={"type": "array", "items": _EXPRESSION})
_ENDPOINT = _closed(
    ["port"],
    port={"type": "string"},
    path={"type": "string"},
    scheme={"enum": ["http", "https"]},
    interval=_DURATION,
    scrapeTimeout=_DURATION,
    honorLabels={"type": "boolean"},
)
_NAMESPACES = _closed([], any={"type": "boolean"}, matchNames={"type": "array", "items": {"type": "string"}})


def _monitor(kind: str, endpoints: str) -> dict[str, Any]:
    metadata = _closed(
        ["name", "namespace"], name={"type": "string"}, namespace={"type": "string"}, labels=_LABELS
    )
    spec = {
        "selector": _SELECTOR,
        "namespaceSelector": _NAMESPACES,
        "jobLabel": {"type": "string"},
        endpoints: {"type": "array", "minItems": 1, "items": _ENDPOINT},
    }
    return _closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "monitoring.coreos.com/v1"},
        kind={"const": kind},
        metadata=metadata,
        spec=_closed(["selector", endpoints], **spec),
    )


MONITORS = {
    "PodMonitor": _monitor("PodMonitor", "podMetricsEndpoints"),
    "ServiceMonitor": _monitor("ServiceMonitor", "endpoints"),
}
