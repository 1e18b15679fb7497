"""Notices as e-mail, handed in at a real SMTP server, encrypted."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from gpuledger.bus import BusSettings
from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import TargetAway, TargetRefused
from gpuledger.localstack import Kafka, free_port
from gpuledger.notify.build import build
from gpuledger.notify.document import EmailTarget
from gpuledger.notify.trial import trial
from tests.support.breaches import breach, publish_breaches
from tests.support.kafka import create_topic
from tests.support.notifying import notifying
from tests.support.waiting import PATIENCE_S, until

NOTICE = trial(1_700_000_000_000_000_000)[0]
PASSWORD = "correct horse"


class Mailbox:
    """The server's handler: keeps what it takes, and answers what it is told."""

    def __init__(self) -> None:
        self.answer = "250 taken"
        self.envelopes: list[Envelope] = []
        self.encrypted: list[bool] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        self.encrypted.append(session.ssl is not None)
        if self.answer.startswith("250"):
            self.envelopes.append(envelope)
        return self.answer

    def mails(self) -> list[EmailMessage]:
        return [message_from_bytes(e.content, policy=policy.default) for e in self.envelopes]  # type: ignore[arg-type, misc]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("mail")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


def authenticated(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    known = (data.login, data.password) == (b"ledger", PASSWORD.encode())
    return AuthResult(success=known, handled=False)  # the server itself says no


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@contextmanager
def served(mailbox: Mailbox, **options: Any) -> Iterator[int]:
    """The port of a server that hands ``mailbox`` what it is sent."""
    ports = {"hostname": "127.0.0.1", "port": free_port(), "ready_timeout": PATIENCE_S}
    controller = Controller(mailbox, **ports, **options)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(certificate[1], certificate[0])
    return made


@pytest.fixture
def port(mailbox: Mailbox, tls: ssl.SSLContext) -> Iterator[int]:
    who = {"auth_required": True, "authenticator": authenticated}
    with served(mailbox, tls_context=tls, require_starttls=True, **who) as found:
        yield found


@pytest.fixture
def described(port: int, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    return {
        "name": "mail",
        "type": "email",
        "host": "127.0.0.1",
        "port": port,
        "ca_file": str(certificate[1]),
        "username": "ledger",
        "password": {"env": "MAIL_PASSWORD"},
        "from": "ledger@example.org",
        "to": ["ada@example.org", "bob@example.org"],
    }


def send(described: dict[str, Any]) -> None:
    build(EmailTarget.model_validate(described), SystemClock()).send(NOTICE)


def test_a_breach_is_a_mail_and_its_end_another_of_the_same_thread(
    kafka: Kafka, bus: BusSettings, unique: Callable[[str], str], described: dict[str, Any], mailbox: Mailbox
) -> None:
    topic = create_topic(kafka, unique("breaches"))
    with notifying(bus, topic, unique("notify"), described):
        publish_breaches(bus, topic, [breach("b1"), breach("b1", 2, "resolved")])
        until(lambda: len(mailbox.envelopes) == 2)
    first, second = mailbox.mails()
    assert first["Subject"] == "[Firing] team-a has spent 80 % of team-a-monthly"
    assert second["Subject"] == "[Resolved] team-a has spent 80 % of team-a-monthly"
    assert first["References"] == second["References"]
    assert first["Message-ID"] != second["Message-ID"]
    assert "- pod ml/train-0: 50.00 EUR, 4.00 GPU-hours" in first.get_content()
    assert mailbox.envelopes[0].rcpt_tos == ["ada@example.org", "bob@example.org"]
    assert all(mailbox.encrypted)


@pytest.mark.parametrize(
    ("answer", "meant"), [("451 try later", TargetAway), ("554 never", TargetRefused)], ids=["now", "ever"]
)
def test_a_refusal_for_now_is_another_than_one_for_good(
    described: dict[str, Any], mailbox: Mailbox, answer: str, meant: type[Exception]
) -> None:
    mailbox.answer = answer
    with pytest.raises(meant):
        send(described)
    mailbox.answer = "250 taken"
    send(described)
    assert len(mailbox.envelopes) == 1


def test_a_wrong_password_is_tried_again_since_somebody_may_mend_it(
    described: dict[str, Any], mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "wrong")
    with pytest.raises(TargetAway, match="does not let us in") as found:
        send(described)
    assert "wrong" not in str(found.value)


def test_a_server_that_speaks_tls_from_the_first_byte_is_spoken_to_so(
    described: dict[str, Any], mailbox: Mailbox, tls: ssl.SSLContext
) -> None:
    """As at port 465 (RFC 8314, 3.3): it says nothing before it is greeted in TLS."""
    with served(mailbox, ssl_context=tls) as found:
        open_to_all = {"port": found, "tls": "implicit", "username": None, "password": None}
        send(described | open_to_all)
        with pytest.raises(TargetAway, match="SSLCertVerificationError"):
            send(described | open_to_all | {"ca_file": None})
    assert len(mailbox.envelopes) == 1


def test_a_server_whose_certificate_nobody_vouches_for_gets_no_password(
    described: dict[str, Any], mailbox: Mailbox
) -> None:
    with pytest.raises(TargetAway, match="SSLCertVerificationError"):
        send(described | {"ca_file": None})
    assert not mailbox.encrypted
