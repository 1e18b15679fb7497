"""E-mail over SMTP, encrypted; all notices of one breach are one thread."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

from gpuledger.bus.access import Secret
from gpuledger.contract.clock import NS_PER_S
from gpuledger.contract.errors import TargetAway, TargetRefused
from gpuledger.contract.records import Breach
from gpuledger.notify.notice import Notice

TIMEOUT_S = 30.0  # a server may look up the sender before it answers
DOMAIN = "gpuledger"
PERMANENT = 500  # RFC 5321, 4.2.1: 5yz is a permanent refusal


@dataclass(frozen=True)
class MailServer:
    """Where mail is handed in. ``tls``: ``starttls``, ``implicit``, or ``none`` (loopback only)."""

    host: str
    port: int
    tls: str
    ca_file: Path | None = None
    username: str | None = None
    password: Secret | None = None


class Mail:
    """A connection for each notice: they are few, and servers close idle ones."""

    def __init__(self, server: MailServer, sender: str, recipients: Sequence[str]) -> None:
        self._server = server
        self._sender = sender
        self._recipients = tuple(recipients)

    def send(self, notice: Notice) -> None:
        """See Target.send. Taken by one recipient's server is delivered: the others would get it twice."""
        mail = message(notice, self._sender, self._recipients)
        try:
            with self._connected() as connection:
                connection.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise _meant(min(codes), "the mail server refuses every recipient") from None
        except smtplib.SMTPAuthenticationError as error:
            raise TargetAway(f"the mail server does not let us in ({error.smtp_code})") from None
        except smtplib.SMTPResponseException as error:
            raise _meant(error.smtp_code, "the mail server refuses the message") from None
        except (smtplib.SMTPException, OSError) as error:
            raise TargetAway(
                f"the mail server {self._server.host}:{self._server.port}: {type(error).__name__}: {error}"
            ) from None

    def keep(self, firing: Sequence[Breach], now_ns: int) -> None:
        """Nothing: a mailbox keeps what it was sent."""

    def close(self) -> None:
        """Nothing is held open."""

    def _connected(self) -> smtplib.SMTP:
        server = self._server
        trusted = ssl.create_default_context(cafile=None if server.ca_file is None else str(server.ca_file))
        if server.tls == "implicit":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=TIMEOUT_S, context=trusted
            )
        else:
            connection = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
        try:
            if server.tls == "starttls":
                connection.starttls(context=trusted)
            if server.username is not None and server.password is not None:
                connection.login(server.username, server.password.get_secret_value())
        except BaseException:
            connection.close()
            raise
        return connection


def message(notice: Notice, sender: str, recipients: Sequence[str]) -> EmailMessage:
    """The mail of a notice: plain text, its id the same at each attempt."""
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = notice.title
    mail["Date"] = formatdate(notice.at_ns / NS_PER_S)
    mail["Message-ID"] = f"<{notice.id}@{DOMAIN}>"
    mail["References"] = f"<{notice.thread}@{DOMAIN}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday answers it
    mail.set_content("\n".join(notice.lines()))
    return mail


def _meant(code: int, what: str) -> TargetAway | TargetRefused:
    return TargetRefused(f"{what} ({code})") if code >= PERMANENT else TargetAway(f"{what} now ({code})")
