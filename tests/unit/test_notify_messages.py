"""What targets are told: signed, escaped, with the same id at each attempt."""

from __future__ import annotations

import json
from email import message_from_bytes, policy

import pytest

from gpuledger.contract.clock import ManualClock
from gpuledger.contract.records import BreachDriver
from gpuledger.notify.alertmanager import Alertmanager
from gpuledger.notify.http import Poster
from gpuledger.notify.mail import message as mail_of
from gpuledger.notify.notice import Kind, Notice
from gpuledger.notify.slack import MAX_SECTION_CHARACTERS
from gpuledger.notify.slack import message as chat_of
from gpuledger.notify.webhook import key_of, payload, signature
from tests.support.breaches import breach

HOSTILE = "a\r\nBcc: all@example.org\u2028<!channel> \ud83d".encode("utf-8", "replace").decode()


CORRECTED = "The ledger was corrected: this line was never crossed."


def notice(kind: Kind = Kind.FIRING, **fields: object) -> Notice:
    return Notice(kind, breach("b1", **fields), 1_700_000_000_000_000_000)


def test_a_signature_is_that_of_the_standard_s_own_example() -> None:
    # github.com/standard-webhooks, spec and its libraries' tests
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_that_claims_to_be_base64_must_be() -> None:
    with pytest.raises(ValueError, match="not base64"):
        key_of("whsec_***")


def test_the_id_is_that_of_the_change_and_the_kind() -> None:
    ids = {
        notice().id,
        notice(change=2).id,
        notice(Kind.RESOLVED).id,
        Notice(Kind.FIRING, breach("b11"), 0).id,
    }
    assert len(ids) == 4
    assert notice().id == notice().id
    assert notice().id.isalnum()


def test_a_mail_has_one_recipient_line_whatever_a_name_says() -> None:
    mail = mail_of(notice(message=HOSTILE), "ledger@example.org", ["ada@example.org", "bob@example.org"])
    parsed = message_from_bytes(mail.as_bytes(), policy=policy.default)
    assert parsed["Bcc"] is None
    assert parsed["To"] == "ada@example.org, bob@example.org"
    assert "Bcc: all@example.org" in parsed["Subject"]
    assert parsed["Message-ID"] == f"<{notice().id}@gpuledger>"


def test_the_mails_of_one_breach_are_one_thread() -> None:
    ends = [mail_of(notice(kind), "a@b.c", ["d@e.f"])["References"] for kind in Kind]
    assert len(set(ends)) == 1


def test_a_breach_that_was_never_one_is_said_so_wherever_it_is_told() -> None:
    retracted, resolved = notice(Kind.RETRACTED), notice(Kind.RESOLVED)
    assert retracted.title == "[Retracted] team-a has spent 80 % of team-a-monthly"

    def bodies(told: Notice) -> list[str]:
        alerts = Alertmanager("http://127.0.0.1:1", {}, Poster("nobody"), ManualClock(told.at_ns))
        alert = alerts.alert(told.breach, told.at_ns, told.at_ns, told.kind)
        alerts.close()
        chat, hook = json.loads(chat_of(told)), json.loads(payload(told))
        return [
            mail_of(told, "a@b.c", ["d@e.f"]).get_content(),
            chat["attachments"][0]["blocks"][0]["text"]["text"],
            hook["data"]["text"],
            alert["annotations"]["description"],
        ]

    assert all(CORRECTED in body for body in bodies(retracted))
    assert not any(CORRECTED in body for body in bodies(resolved))
    assert json.loads(payload(retracted))["type"] == "breach.retracted"


def test_a_chat_s_message_is_short_and_calls_nobody() -> None:
    drivers = [BreachDriver("pod", "<!here>", "x" * 2_000, 1, 1) for _ in range(9)]
    body = json.loads(chat_of(notice(message=HOSTILE, drivers=drivers)))
    (attachment,) = body["attachments"]
    text = attachment["blocks"][0]["text"]["text"]
    assert len(text) <= MAX_SECTION_CHARACTERS
    assert "<" not in text + body["text"]


def test_amounts_of_a_budget_in_gpu_hours_are_gpu_hours() -> None:
    in_time = notice(
        spent_nano=None,
        amount_nano=None,
        currency="",
        spent_gpu_ns=9_000_000_000_000,
        amount_gpu_ns=18_000_000_000_000,
        message="",
        forecast_low_ns=1_700_000_000_000_000_000,
        forecast_high_ns=1_700_000_600_000_000_000,
    )
    lines = list(in_time.lines())
    assert "Spent: 2.50 GPU-hours of 5.00 GPU-hours" in lines
    assert "Used up, as it goes: between 2023-11-14T22:13:20Z and 2023-11-14T22:23:20Z" in lines
    assert in_time.title == "[Firing] budget team-a-monthly: threshold 80 %"


def test_money_in_a_webhook_is_exact() -> None:
    body = json.loads(payload(notice(spent_nano=2**62 + 1)))
    assert body["data"]["breach"]["spent_nano"] == 2**62 + 1
    assert body["type"] == "breach.firing"
