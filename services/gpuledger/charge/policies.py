"""Which policy each window of a bill has: the one that was asked for, else what the team map says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from gpuledger.attribution import Policy
from gpuledger.charge.words import instant_of
from gpuledger.contract.records import PolicyRule, TeamMapVersion
from gpuledger.pricing import Teams

_DEFAULT = Policy()


class Start(NamedTuple):
    """A window as far as its policy goes."""

    cluster: str
    at_ns: int


class Policies:
    """The policies of one bill. ``asked`` are the settings of ``--policy``: they go before every team map,
    and what they do not name is the default."""

    def __init__(self, asked: Mapping[str, str], maps: Sequence[TeamMapVersion]) -> None:
        self._asked = Policy(**asked) if asked else None
        self._teams = Teams(maps)
        self._rules = [rule for teams in maps for rule in teams.policies]

    def at(self, start: Start) -> Policy:
        """The policy of a window, as the processor chooses it."""
        if self._asked is not None:
            return self._asked
        return Policy(**self._teams.at(start.at_ns).policy_of(*start))

    @property
    def by_memory(self) -> set[str]:
        """The settings by which some of the time is shared out by memory."""
        chosen = [self._asked] if self._asked is not None else self._rules
        names = ("entitlement", "mig")
        return {name for name in names for one in chosen if getattr(one, name) != getattr(_DEFAULT, name)}

    @property
    def instants_ns(self) -> set[int]:
        """When policies begin and end: whole minutes, so borders of windows."""
        if self._asked is not None:
            return set()
        begins = {rule.effective_from_ns for rule in self._rules}
        return begins | {rule.effective_to_ns for rule in self._rules if rule.effective_to_ns is not None}

    def decided(self, starts: Iterable[Start]) -> list[str]:
        """In words which policy these windows have and what says so; nothing where nobody chose one."""
        if self._asked is not None:
            beside = "; the policies of --teams are not used" if self._rules else ""
            return [f"policy {_settings(self._asked)} (--policy){beside}"]
        if not self._rules:
            return []
        found: list[str] = []
        last: dict[str, PolicyRule | None] = {}
        order = sorted(set(starts))
        for start in order:
            rule = self._teams.at(start.at_ns).policy_rule(*start)
            if start.cluster not in last or last[start.cluster] != rule:
                since = f" from {instant_of(start.at_ns)} on" if start.cluster in last else ""
                found.append(self._decision(start, rule) + since)
            last[start.cluster] = rule
        return found

    def _decision(self, start: Start, rule: PolicyRule | None) -> str:
        where = f"cluster {start.cluster}" if start.cluster else "a cluster without a name (--cluster)"
        if rule is None:
            return f"policy {_settings(_DEFAULT)} in {where}: none of --teams holds there"
        return f"policy {_settings(self.at(start))} in {where} ({rule.id} of --teams)"


def _settings(policy: Policy) -> str:
    """Every setting, so that nobody has to know the defaults."""
    return ", ".join(f"{one.name}={getattr(policy, one.name)}" for one in fields(policy))
