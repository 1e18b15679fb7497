"""Prices, teams and budgets from YAML, checked whole: either a version or every mistake with its line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.records import (
    BudgetsVersion,
    CurrencyRate,
    PolicyRule,
    PriceBookVersion,
    TeamMapVersion,
    TeamRule,
    encode,
)
from gpuledger.pricing.check import check_book
from gpuledger.pricing.entries import PROVISIONAL, WRITTEN_OFF, entries_of
from gpuledger.pricing.yaml_budgets import BudgetsDocument
from gpuledger.pricing.yaml_lines import Path, Plain, read_yaml
from gpuledger.pricing.yaml_prices import ExchangeRate, PricesDocument
from gpuledger.pricing.yaml_teams import PolicyModel, TeamRuleModel, TeamsDocument

Version: TypeAlias = PriceBookVersion | TeamMapVersion | BudgetsVersion
M = TypeVar("M", bound=BaseModel)
V = TypeVar("V", PriceBookVersion, TeamMapVersion, BudgetsVersion)
KINDS = ("prices", "teams", "budgets")
WITH_IDS = ("prices", "spot", "owned", "commitments", "rules", "budgets")


class InvalidDocument(ConfigError):
    """A document with mistakes; ``problems`` has each as ``file:line: what``."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def read_documents(text: str, name: str) -> list[Version]:
    """The documents of a file as versions numbered 1 and active from the beginning; publishing numbers them.

    Raises InvalidDocument with every mistake of the file, ConfigError where it is not YAML at all.
    """
    plains = read_yaml(text, name)
    if not plains:
        raise ConfigError("the file is empty", name)
    versions: list[Version] = []
    problems: list[str] = []
    for plain in plains:
        try:
            versions.append(_read(plain, text))
        except InvalidDocument as error:
            problems += error.problems
    if problems:
        raise InvalidDocument(problems)
    return versions


def read_prices(text: str, name: str) -> PriceBookVersion:
    """The one price list of a file. Raises as ``read_documents``."""
    return _only(read_documents(text, name), PriceBookVersion, name)


def read_teams(text: str, name: str) -> TeamMapVersion:
    """The one team map of a file. Raises as ``read_documents``."""
    return _only(read_documents(text, name), TeamMapVersion, name)


def places_of_ids(text: str, name: str) -> dict[str, str]:
    """``file:line`` of everything in a file's documents that has an id. Raises ConfigError."""
    found: dict[str, str] = {}
    for plain in read_yaml(text, name):
        for section in WITH_IDS:
            items = plain.value.get(section) if isinstance(plain.value, dict) else None
            for index, item in enumerate(items if isinstance(items, list) else ()):
                if isinstance(item, dict) and isinstance(item.get("id"), str):
                    found.setdefault(item["id"], plain.where((section, index)))
    return found


def place_of(id_of_entry: str, places: Mapping[str, str]) -> str:
    """The place of what an entry was made from: a series and its provisional end are one in the document."""
    for suffix in (PROVISIONAL, WRITTEN_OFF):
        id_of_entry = id_of_entry.removesuffix(suffix)
    return places.get(id_of_entry, "")


def _only(versions: list[Version], kind: type[V], name: str) -> V:
    found = [version for version in versions if isinstance(version, kind)]
    if len(found) != 1:
        what = "prices" if kind is PriceBookVersion else "teams"
        raise ConfigError(f"there must be one document of kind {what}, there are {len(found)}", name)
    return found[0]


def _read(plain: Plain, text: str) -> Version:
    kind = plain.value.get("kind") if isinstance(plain.value, dict) else None
    if kind == "prices":
        return _prices(plain, text)
    if kind == "teams":
        return _teams(plain, text)
    if kind == "budgets":
        return _budgets(plain, text)
    raise InvalidDocument([f"{plain.where(('kind',))}: kind must be one of {', '.join(KINDS)}"])


def _prices(plain: Plain, text: str) -> PriceBookVersion:
    document = _parse(PricesDocument, plain)
    _one_rate(plain, document.rates)
    placed = entries_of(document)
    version = PriceBookVersion(
        version=1,
        active_from_ns=0,
        document=text,
        document_sha256=_digest(text),
        currency=document.currency,
        entries=[entry for entry, _ in placed],
        rates=[
            CurrencyRate(rate.from_currency, rate.to_currency, rate.effective_from, rate.rate, rate.source)
            for rate in document.rates
        ],
    )
    problems = check_book(version)
    if problems:
        raise InvalidDocument(
            f"{plain.where(placed[problem.place].path)}: {problem.message}" for problem in problems
        )
    return _small_enough(version, plain)


def _teams(plain: Plain, text: str) -> TeamMapVersion:
    document = _parse(TeamsDocument, plain)
    _unique(plain, "rules", [rule.id for rule in document.rules])
    _unique(plain, "policies", [policy.id for policy in document.policies])
    _apart(plain, document.policies)
    version = TeamMapVersion(
        version=1,
        active_from_ns=0,
        document=text,
        document_sha256=_digest(text),
        default_team=document.default_team,
        rules=[_rule(rule) for rule in document.rules],
        policies=[_policy(policy) for policy in document.policies],
    )
    return _small_enough(version, plain)


def _budgets(plain: Plain, text: str) -> BudgetsVersion:
    document = _parse(BudgetsDocument, plain)
    _unique(plain, "budgets", [budget.id for budget in document.budgets])
    version = BudgetsVersion(
        version=1,
        active_from_ns=0,
        document=text,
        document_sha256=_digest(text),
        budgets=[budget.record() for budget in document.budgets],
    )
    return _small_enough(version, plain)


def _one_rate(plain: Plain, rates: Sequence[ExchangeRate]) -> None:
    """Raises InvalidDocument where two rates of one pair of currencies begin at one instant, or a rate is of
    a currency to itself."""
    first: dict[tuple[str, str, int], int] = {}
    problems = []
    for index, rate in enumerate(rates):
        pair = f"{rate.from_currency} to {rate.to_currency}"
        before = first.setdefault((rate.from_currency, rate.to_currency, rate.effective_from), index)
        if rate.from_currency == rate.to_currency:
            problems.append(f"{plain.where(('rates', index))}: a rate from {pair} says nothing")
        elif before != index:
            problems.append(
                f"{plain.where(('rates', index))}: there is a rate from {pair} from that instant on already:"
                f" {plain.where(('rates', before))}"
            )
    if problems:
        raise InvalidDocument(problems)


def _unique(plain: Plain, section: str, ids: list[str]) -> None:
    """Raises InvalidDocument where an id is there twice."""
    first = {name: index for index, name in reversed(list(enumerate(ids)))}
    problems = [
        f"{plain.where((section, index))}: the id {name} is there twice"
        for index, name in enumerate(ids)
        if first[name] != index
    ]
    if problems:
        raise InvalidDocument(problems)


def _apart(plain: Plain, policies: Sequence[PolicyModel]) -> None:
    """Raises InvalidDocument where two policies would hold for a cluster at once."""
    problems = [
        f"{plain.where(('policies', index))}: it overlaps with {other.id} in time, for "
        + (f"cluster {one.cluster}" if one.cluster else "all clusters")
        for index, one in enumerate(policies)
        for other in policies[:index]
        if one.meets(other)
    ]
    if problems:
        raise InvalidDocument(problems)


def _policy(policy: PolicyModel) -> PolicyRule:
    return PolicyRule(
        **policy.model_dump(exclude={"effective_from", "effective_to"}),
        effective_from_ns=policy.effective_from,
        effective_to_ns=policy.effective_to,
    )


def _rule(rule: TeamRuleModel) -> TeamRule:
    return TeamRule(
        id=rule.id,
        team=rule.team,
        cost_centre=rule.cost_centre,
        label_key=rule.from_label,
        **rule.match.model_dump(),
        priority=rule.priority,
        effective_from_ns=rule.effective_from,
        effective_to_ns=rule.effective_to,
    )


def _parse(model: type[M], plain: Plain) -> M:
    try:
        return model.model_validate(plain.value)
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False, include_context=False):
            path: Path = problem["loc"]
            dotted = ".".join(str(part) for part in path)
            message = problem["msg"].removeprefix("Value error, ")
            problems.append(f"{plain.where(path)}: {dotted}: {message}")
        raise InvalidDocument(problems) from None


def _small_enough(version: V, plain: Plain) -> V:
    """Itself. Raises InvalidDocument where it would not fit into a record, entries and text together."""
    try:
        encode(version)
    except BadRecord as error:
        raise InvalidDocument(
            [
                f"{plain.where(())}: it does not fit into a version, {error}: leave out what has ended, and "
                "shorten the sources"
            ]
        ) from None
    return version


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
