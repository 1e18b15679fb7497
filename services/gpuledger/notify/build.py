"""From what a document says of a target to the target itself, with its secrets read."""

from __future__ import annotations

from pathlib import Path

from gpuledger.contract.clock import Clock
from gpuledger.contract.errors import ConfigError
from gpuledger.notify.alertmanager import Alertmanager
from gpuledger.notify.document import (
    AlertmanagerTarget,
    AnyTarget,
    EmailTarget,
    SlackTarget,
    WebhookTarget,
    plain_over_network,
)
from gpuledger.notify.http import Poster
from gpuledger.notify.mail import Mail, MailServer
from gpuledger.notify.slack import Slack
from gpuledger.notify.target import Target
from gpuledger.notify.webhook import Webhook


def build(described: AnyTarget, clock: Clock) -> Target:
    """The target. Raises ConfigError where a secret or an authority's certificate is not there."""
    try:
        match described:
            case AlertmanagerTarget():
                return _alertmanager(described, clock)
            case WebhookTarget():
                return Webhook(described.url, described.secret.read(), clock, _there(described.ca_file))
            case SlackTarget():
                return _slack(described)
            case EmailTarget():
                return _mail(described)
    except ValueError as error:
        raise ConfigError(str(error), f"target {described.name}") from None
    except ConfigError as error:
        raise ConfigError(str(error), f"target {described.name}") from None


def _alertmanager(described: AlertmanagerTarget, clock: Clock) -> Alertmanager:
    headers, credentials = {}, None
    if described.bearer is not None:
        headers["Authorization"] = f"Bearer {described.bearer.read().get_secret_value()}"
    if described.username is not None and described.password is not None:
        credentials = (described.username, described.password.read().get_secret_value())
    poster = Poster(described.url, _there(described.ca_file), headers, credentials)
    return Alertmanager(described.url, described.labels, poster, clock)


def _slack(described: SlackTarget) -> Slack:
    url = described.url.read()
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise ConfigError("the chat's webhook is no http:// or https:// address")
    if plain_over_network(url.get_secret_value()):
        raise ConfigError("the chat's webhook is a secret and would go in the clear: use https://")
    return Slack(url, _there(described.ca_file))


def _mail(described: EmailTarget) -> Mail:
    server = MailServer(
        described.host,
        described.port,
        described.tls,
        _there(described.ca_file),
        described.username,
        None if described.password is None else described.password.read(),
    )
    return Mail(server, described.sender, described.to)


def _there(ca_file: Path | None) -> Path | None:
    if ca_file is not None and not ca_file.is_file():
        raise ConfigError(f"there is no file {ca_file}")
    return ca_file
