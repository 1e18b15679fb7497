"""Alertmanager's API, version 2: alerts that are repeated while they fire, and silences for those on hold.

Alertmanager takes an alert that is not repeated for resolved, so a breach that somebody acknowledged or
silenced is still repeated, under a silence of our own; that sends nobody anything. Where no
end was said, it is short and renewed, so that it does not outlive this program by long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.records import Breach
from gpuledger.notify.book import OPEN_END_NS, held_until_ns, suppressed
from gpuledger.notify.http import Poster
from gpuledger.notify.notice import Kind, Notice, hold_line, instant, one_line, summary, threshold
from gpuledger.notify.target import KEEP_EVERY_S

ENDS_AFTER_NS = int(4 * KEEP_EVERY_S * NS_PER_S)  # Prometheus's factor: three repetitions may be lost
HOLD_NS = 3_600 * NS_PER_S  # of an acknowledgement, renewed each hour by half
CREATOR = "gpuledger"
NAMES = {
    "threshold": "GpuBudgetThreshold",
    "burn_rate": "GpuBudgetBurnRate",
    "forecast": "GpuBudgetForecast",
    "anomaly": "GpuSpendAnomaly",
    "idle": "GpuMoneyHeldIdleTooLong",
}


class Alertmanager:
    """One Alertmanager; name each one of a cluster as a target of its own, as Prometheus does."""

    def __init__(self, url: str, labels: Mapping[str, str], poster: Poster, clock: Clock) -> None:
        self._url = url.rstrip("/") + "/api/v2"
        self._labels = dict(labels)
        self._poster = poster
        self._clock = clock

    def send(self, notice: Notice) -> None:
        """See Target.send."""
        now_ns = self._clock.unix_ns()
        match notice.kind:
            case Kind.FIRING:
                self._expire(self._holds(), {notice.breach.id})
                self._post([self.alert(notice.breach, now_ns, now_ns + ENDS_AFTER_NS)])
            case Kind.RESOLVED | Kind.RETRACTED:
                self._expire(self._holds(), {notice.breach.id})
                self._post([self.alert(notice.breach, now_ns, now_ns, notice.kind)])
            case Kind.ACKNOWLEDGED | Kind.SILENCED:
                self._hold(notice.breach, self._holds().get(notice.breach.id), now_ns)

    def keep(self, firing: Sequence[Breach], now_ns: int) -> None:
        """Repeat what fires, renew the silences of what is on hold, end those of what is not."""
        holds = self._holds()
        held = [breach for breach in firing if suppressed(breach, now_ns)]
        for breach in held:
            self._hold(breach, holds.get(breach.id), now_ns)
        self._expire(holds, set(holds) - {breach.id for breach in held})
        if firing:
            self._post([self.alert(breach, now_ns, now_ns + ENDS_AFTER_NS) for breach in firing])

    def close(self) -> None:
        """See Target.close."""
        self._poster.close()

    def _post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        self._poster.request("POST", f"{self._url}/alerts", json.dumps(alerts).encode())

    def alert(self, breach: Breach, now_ns: int, ends_ns: int, kind: Kind = Kind.FIRING) -> dict[str, Any]:
        """As the v2 API takes it; one that ``ends_ns`` by now is over, and told in the words of ``kind``."""
        notice = Notice(kind, breach, now_ns)
        labels = {
            "alertname": NAMES.get(breach.rule, "GpuBudget"),
            "breach_id": breach.id,
            "budget": one_line(breach.budget_id),
            "rule": threshold(breach),
            "severity": notice.severity,
            "source": CREATOR,
        }
        return {
            "labels": labels | self._labels,
            "annotations": {"summary": summary(breach), "description": "\n".join(notice.lines())},
            "startsAt": instant(min(breach.since_ns, ends_ns)),
            "endsAt": instant(ends_ns),
            **({"generatorURL": breach.link} if breach.link.startswith(("http://", "https://")) else {}),
        }

    def _holds(self) -> dict[str, dict[str, Any]]:
        """Our silences that hold, by the breach that they are for."""
        query = urlencode({"filter": f'source="{CREATOR}"'})
        found = self._poster.request("GET", f"{self._url}/silences?{query}") or []
        return {
            matcher["value"]: silence
            for silence in found
            if silence["createdBy"] == CREATOR and silence["status"]["state"] != "expired"
            for matcher in silence["matchers"]
            if matcher["name"] == "breach_id"
        }

    def _hold(self, breach: Breach, known: Mapping[str, Any] | None, now_ns: int) -> None:
        until_ns = least_ns = held_until_ns(breach)
        if until_ns == OPEN_END_NS:
            until_ns, least_ns = now_ns + HOLD_NS, now_ns + HOLD_NS // 2
        if known is not None and known["endsAt"][:19] >= instant(least_ns)[:19]:
            return
        matchers = [("breach_id", breach.id), ("source", CREATOR)]
        silence = {
            **({"id": known["id"]} if known is not None else {}),
            "matchers": [
                {"name": name, "value": value, "isRegex": False, "isEqual": True} for name, value in matchers
            ],
            "startsAt": instant(now_ns),
            "endsAt": instant(until_ns),
            "createdBy": CREATOR,
            "comment": hold_line(breach),
        }
        self._poster.request("POST", f"{self._url}/silences", json.dumps(silence).encode())

    def _expire(self, holds: Mapping[str, Mapping[str, Any]], breaches: set[str]) -> None:
        for breach_id in breaches & set(holds):
            self._poster.request("DELETE", f"{self._url}/silence/{quote(holds[breach_id]['id'])}")
