"""The targets as a YAML document: checked whole, secrets only by the file or variable that holds them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpuledger.bus.access import Secret, secret_file
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Breach
from gpuledger.documents import in_words
from gpuledger.notify.notice import Kind, Notice
from gpuledger.pricing.yaml_lines import Plain, read_yaml

MAX_TARGETS = 100  # each is a thread and a consumer group
PEOPLE_HEAR = (Kind.FIRING, Kind.RESOLVED, Kind.RETRACTED)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ADDRESS = re.compile(r"[^@\s<>,;:\"]{1,64}@[^@\s<>,;:\"]{1,255}")


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("must be an http:// or https:// address")
    if parts.username or parts.password:
        raise ValueError("a password does not belong into an address: use username and password_file")
    return text


def _label(name: str) -> str:
    if not _LABEL.fullmatch(name):
        raise ValueError("a label's name has letters, digits and underscores")
    return name


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise ValueError("must be an address like name@example.org")
    return text


Url: TypeAlias = Annotated[str, AfterValidator(_url)]
Address: TypeAlias = Annotated[str, AfterValidator(_address)]


def loopback(host: str) -> bool:
    """Whether the host is this machine, so that nothing said to it leaves it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def plain_over_network(url: str) -> bool:
    """Whether others could read what is sent there."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not loopback(parts.hostname or "")


class SecretFrom(BaseModel):
    """Where a secret is: a file, or a variable of the environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = None
    env: str | None = None

    @model_validator(mode="after")
    def _one(self) -> SecretFrom:
        if (self.file is None) == (self.env is None):
            raise ValueError("say either file or env")
        return self

    def read(self, environment: Mapping[str, str] | None = None) -> Secret:
        """The secret. Raises ConfigError where it is not there."""
        if self.env is None:
            try:
                found = secret_file(self.file)
            except ValueError as error:
                raise ConfigError(str(error)) from None
            assert found is not None
            return found
        value = (os.environ if environment is None else environment).get(self.env, "")
        if not value:
            raise ConfigError(f"the environment has no {self.env}, or it is empty")
        return Secret(value)


class _Target(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    budgets: tuple[str, ...] = ("*",)  # ids, with * and ? as in file names
    send: tuple[Kind, ...] = PEOPLE_HEAR

    def concerns(self, breach: Breach) -> bool:
        """Whether breaches of that budget go to this target."""
        return any(fnmatchcase(breach.budget_id, pattern) for pattern in self.budgets)

    def wants(self, notice: Notice) -> bool:
        """Whether this kind of notice goes to this target."""
        return notice.kind in self.send


class AlertmanagerTarget(_Target):
    """An Alertmanager."""

    type: Literal["alertmanager"]
    url: Url
    ca_file: Path | None = None
    username: str | None = None
    password: SecretFrom | None = None
    bearer: SecretFrom | None = None
    labels: dict[Annotated[str, AfterValidator(_label)], str] = {}
    send: tuple[Kind, ...] = tuple(Kind)

    @model_validator(mode="after")
    def _consistent(self) -> AlertmanagerTarget:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together")
        if self.password is not None and self.bearer is not None:
            raise ValueError("either password or bearer")
        if (self.password or self.bearer) and plain_over_network(self.url):
            raise ValueError("this sends a secret in the clear: use https://")
        return self


class WebhookTarget(_Target):
    """A signed webhook."""

    type: Literal["webhook"]
    url: Url
    secret: SecretFrom
    ca_file: Path | None = None
    send: tuple[Kind, ...] = tuple(Kind)


class SlackTarget(_Target):
    """A chat's incoming webhook."""

    type: Literal["slack"]
    url: SecretFrom
    ca_file: Path | None = None


class EmailTarget(_Target):
    """A mail server, and to whom."""

    type: Literal["email"]
    host: str = Field(pattern=r"^[A-Za-z0-9.:-]{1,253}$")
    port: int = Field(587, ge=1, le=65535)
    tls: Literal["starttls", "implicit", "none"] = "starttls"
    ca_file: Path | None = None
    username: str | None = None
    password: SecretFrom | None = None
    sender: Address = Field(alias="from")
    to: tuple[Address, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _consistent(self) -> EmailTarget:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together")
        if self.tls == "none" and not loopback(self.host):
            raise ValueError("mail is sent in the clear only to a server on this machine")
        return self


AnyTarget: TypeAlias = AlertmanagerTarget | WebhookTarget | SlackTarget | EmailTarget


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["notify"]
    targets: list[Annotated[AnyTarget, Field(discriminator="type")]] = Field(
        min_length=1, max_length=MAX_TARGETS
    )

    @model_validator(mode="after")
    def _names(self) -> _Document:
        names = [target.name for target in self.targets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"the name {twice[0]} is there twice")
        return self


def read_targets(text: str, name: str) -> list[AnyTarget]:
    """The targets of a document. Raises ConfigError with every mistake as ``file:line: what``."""
    plains = read_yaml(text, name)
    if len(plains) != 1:
        raise ConfigError(f"there must be one document of kind notify, there are {len(plains)}", name)
    (plain,) = plains
    try:
        return _Document.model_validate(plain.value).targets
    except ValidationError as error:
        problems = [
            _problem(plain, problem["loc"], in_words(problem))
            for problem in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise ConfigError("\n".join(problems)) from None


def _problem(plain: Plain, place: tuple[str | int, ...], said: str) -> str:
    path = (*place[:2], *place[3:]) if len(place) > 2 else place  # the third says which type was tried
    dotted = ".".join(str(part) for part in path)
    return f"{plain.where(path)}: {dotted}: {said}" if dotted else f"{plain.where(path)}: {said}"
