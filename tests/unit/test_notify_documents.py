"""The document of targets: every mistake with its line, no secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.contract.clock import SystemClock
from gpuledger.contract.errors import ConfigError
from gpuledger.notify.build import build
from gpuledger.notify.document import SecretFrom, read_targets
from tests.support.breaches import breach

ROOT = Path(__file__).parents[2]
HEAD = "kind: notify\ntargets:\n"
HOOK = "  - {name: hook, type: webhook, url: 'https://h.example/x', secret: {env: HOOK_SECRET}}\n"


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as found:
        read_targets(text, "targets.yaml")
    return str(found.value)


def test_the_example_is_a_document() -> None:
    text = (ROOT / "deploy/examples/notify.yaml").read_text()
    assert {target.type for target in read_targets(text, "notify.yaml")} == {
        "alertmanager",
        "webhook",
        "slack",
        "email",
    }


def test_every_mistake_is_told_with_its_line() -> None:
    text = HEAD + (
        "  - name: Hook\n    type: webhook\n    url: ftp://h.example\n    secret: {env: A, file: /b}\n"
        "  - name: mail\n    type: email\n    host: mail.example\n    from: nobody\n"
        "    to: []\n    colour: red\n"
    )
    said = refused(text)
    for line, what in ((3, "name"), (5, "http"), (6, "either file or env"), (10, "address"), (11, "to")):
        assert any(row.startswith(f"targets.yaml:{line}: ") and what in row for row in said.splitlines()), (
            said
        )
    assert "targets.yaml:12: targets.1.colour" in said


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (HEAD + HOOK + HOOK, "the name hook is there twice"),
        (HEAD + HOOK.replace("h.example/x", "me:secret@h.example"), "does not belong into an address"),
        (HEAD + HOOK.replace("{env: HOOK_SECRET}", "hunter2"), "targets.yaml:3: targets.0.secret"),
        ("kind: prices\n", "kind"),
        ("", "there are 0"),
        (HEAD + "  - {name: x, type: pager}\n", "targets.yaml:3"),
        (
            HEAD + "  - {name: x, type: alertmanager, url: 'http://am.example', bearer: {env: T}}\n",
            "use https://",
        ),
        (
            HEAD + "  - {name: x, type: email, host: m.example, tls: none, from: a@b.c, to: [a@b.c]}\n",
            "in the clear only to a server on this machine",
        ),
    ],
)
def test_what_would_be_unsafe_or_makes_no_sense_is_refused(text: str, what: str) -> None:
    said = refused(text)
    assert what in said
    assert "hunter2" not in said
    assert "me:secret" not in said


def test_a_secret_that_is_not_there_is_told_with_its_target(tmp_path: Path) -> None:
    (target,) = read_targets(HEAD + HOOK, "targets.yaml")
    with pytest.raises(ConfigError, match="target hook: the environment has no HOOK_SECRET"):
        build(target, SystemClock())
    with pytest.raises(ConfigError, match="cannot be read"):
        SecretFrom(file=tmp_path / "none").read()


def test_a_chat_s_address_goes_over_no_network_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    (target,) = read_targets(HEAD + "  - {name: c, type: slack, url: {env: CHAT}}\n", "targets.yaml")
    monkeypatch.setenv("CHAT", "http://hooks.example/services/x")
    with pytest.raises(ConfigError, match="use https") as found:
        build(target, SystemClock())
    assert "hooks.example" not in str(found.value)


def test_a_target_hears_only_of_its_budgets() -> None:
    (target,) = read_targets(
        HEAD + HOOK.replace("name: hook,", "name: hook, budgets: ['team-a-*', b],"), "t.yaml"
    )
    assert [target.concerns(breach("x", budget_id=of)) for of in ("team-a-month", "b", "team-b")] == [
        True,
        True,
        False,
    ]
