"""PodDisruptionBudgets that keep an autoscaler from moving a pod now.

Asked for by namespace and seldom, and only of pods that keep a node which nobody holds a GPU of: a watch
would bring every agent the budgets of the whole cluster, whose status changes with each pod of theirs.
Source: policy/v1, PodDisruptionBudget; its selector as in kubernetes.io, "Labels and Selectors".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.contract.records import Pod
from gpuledger.kube.access import Refusal
from gpuledger.logs import EventLog

BUDGETS: Final = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
AGAIN_NS: Final = 600 * NS_PER_S  # a node that is kept alive costs by the hour
REFUSED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
NAMESPACES_AT_ONCE: Final = 16  # as many as pods are named; the others at the next look

_log = EventLog(__name__)


class Asks(Protocol):
    """As much of the API server's client as is needed."""

    def get(self, path: str) -> dict[str, Any]:
        """The object at a path, as JSON. Raises Unavailable."""


class Budget(NamedTuple):
    """A budget that allows no disruption now, and whose pods it is for."""

    labels: Mapping[str, str]
    expressions: tuple[Mapping[str, Any], ...]

    def is_for(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is one of its."""
        same = all(labels.get(name) == value for name, value in self.labels.items())
        return same and all(_holds(expression, labels) for expression in self.expressions)


class DisruptionBudgets:
    """The budgets of the namespaces that were asked for last. It borrows the client; one thread uses it."""

    def __init__(self, client: Asks, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, list[Budget]] = {}
        self._due_ns: dict[str, int] = {}
        self._told = False

    def blocked(self, pods: Collection[Pod]) -> frozenset[str]:
        """The uids of these pods whose disruption a budget does not allow, as far as the server tells.

        What is known of other namespaces is forgotten.
        """
        namespaces = {pod.namespace for pod in pods}
        self._known = {name: found for name, found in self._known.items() if name in namespaces}
        self._due_ns = {name: due_ns for name, due_ns in self._due_ns.items() if name in namespaces}
        self._ask(namespaces)
        return frozenset(
            pod.uid
            for pod in pods
            if any(budget.is_for(pod.labels) for budget in self._known.get(pod.namespace, ()))
        )

    def _ask(self, namespaces: Collection[str]) -> None:
        now = self._clock.boot_ns()
        due = sorted(name for name in namespaces if self._due_ns.get(name, now) <= now)
        for name in due[:NAMESPACES_AT_ONCE]:
            self._due_ns[name] = now + AGAIN_NS
            try:
                self._known[name] = blocking(self._client.get(BUDGETS.format(quote(name))))
            except Unavailable as error:
                refused = isinstance(error, Refusal) and error.status in REFUSED
                if refused:
                    self._known.pop(name, None)
                if not self._told:
                    self._told = True
                    _log.warning("disruption_budgets_not_read", namespace=name, error=str(error))
                if not refused:
                    return  # the others would hardly fare better, and would take as long


def blocking(listed: Mapping[str, Any]) -> list[Budget]:
    """Of budgets listed as JSON those that allow no disruption now; what is no budget is passed over."""
    items = listed.get("items")
    found = (_blocking(_object(item)) for item in (items if isinstance(items, list) else ()))
    return [budget for budget in found if budget is not None]


def _blocking(item: Mapping[str, Any]) -> Budget | None:
    selector = _object(item.get("spec")).get("selector")
    if not isinstance(selector, dict) or _object(item.get("status")).get("disruptionsAllowed") != 0:
        return None  # without a selector it is for no pod
    labels, expressions = _object(selector.get("matchLabels")), selector.get("matchExpressions")
    listed = expressions if isinstance(expressions, list) else ()
    return Budget({str(k): str(v) for k, v in labels.items()}, tuple(map(_object, listed)))


def _object(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, listed = str(expression.get("key")), expression.get("values")
    values = [str(value) for value in listed] if isinstance(listed, list) else []
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
