"""List and watch against a real HTTP server: what changes, what goes, and what a server can do to us."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuledger.contract.clock import ManualClock
from gpuledger.contract.errors import ConfigError, Unavailable
from gpuledger.kube import KubeAccess, KubeClient, Reflector
from gpuledger.kube.reflector import KEEP_GONE_NS
from tests.support.kube_api import PODS, SLICES, KubeApi, pod
from tests.support.waiting import until


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi()
    yield server
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10**18)


@pytest.fixture
def reflector(api: KubeApi, clock: ManualClock) -> Iterator[Reflector[str]]:
    client = KubeClient(api.access)
    made = Reflector(client, PODS, name_of, clock, {"fieldSelector": "spec.nodeName=node-a"})
    yield made
    made.stop()
    client.close()


def name_of(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def names(reflector: Reflector[str]) -> list[str] | None:
    found = reflector.objects()
    return None if found is None else sorted(found.values())


def test_nothing_is_known_before_the_first_list(reflector: Reflector[str]) -> None:
    assert reflector.objects() is None


def test_only_what_the_selector_chooses_is_kept(api: KubeApi, reflector: Reflector[str]) -> None:
    api.put(PODS, pod("1", "here"))
    api.put(PODS, pod("2", "elsewhere", node="node-b"))
    reflector.start()
    until(lambda: names(reflector) == ["here"])


def test_a_long_list_is_read_page_by_page(api: KubeApi, reflector: Reflector[str]) -> None:
    api.page = 7
    for number in range(23):
        api.put(PODS, pod(str(number), f"pod-{number:02}"))
    reflector.start()
    until(lambda: names(reflector) == [f"pod-{number:02}" for number in range(23)])
    assert api.count(PODS, watch=False) == 4


def test_what_comes_changes_and_goes_is_followed_without_another_list(
    api: KubeApi, reflector: Reflector[str]
) -> None:
    reflector.start()
    until(lambda: names(reflector) == [])
    api.put(PODS, pod("1", "one"))
    until(lambda: names(reflector) == ["one"])
    api.put(PODS, pod("1", "renamed"))
    until(lambda: names(reflector) == ["renamed"])
    api.delete(PODS, "1")
    until(lambda: names(reflector) == [])
    assert [gone.value for gone in reflector.gone().values()] == ["renamed"]
    assert api.count(PODS, watch=False) == 1


def test_what_went_is_remembered_for_some_minutes(
    api: KubeApi, reflector: Reflector[str], clock: ManualClock
) -> None:
    for uid in ("1", "2"):
        api.put(PODS, pod(uid, f"pod-{uid}"))
    reflector.start()
    until(lambda: names(reflector) == ["pod-1", "pod-2"])
    api.delete(PODS, "1")
    until(lambda: list(reflector.gone()) == ["1"])
    clock.advance(KEEP_GONE_NS)
    api.delete(PODS, "2")
    until(lambda: list(reflector.gone()) == ["2"])


def test_a_version_that_is_too_old_leads_to_a_new_list_that_shows_what_went(
    api: KubeApi, reflector: Reflector[str]
) -> None:
    api.put(PODS, pod("1", "one"))
    reflector.start()
    until(lambda: names(reflector) == ["one"] and api.count(PODS, watch=True))
    api.down()
    api.delete(PODS, "1")
    api.put(PODS, pod("2", "two"))
    api.forget()
    api.up()
    until(lambda: names(reflector) == ["two"])
    assert [gone.value for gone in reflector.gone().values()] == ["one"]
    assert api.count(PODS, watch=False) == 2


def test_a_server_that_is_away_leaves_the_copy_and_is_found_again(
    api: KubeApi, reflector: Reflector[str]
) -> None:
    api.put(PODS, pod("1", "one"))
    reflector.start()
    until(lambda: names(reflector) == ["one"])
    api.down()
    until(lambda: reflector.problem)
    assert names(reflector) == ["one"]
    api.put(PODS, pod("2", "two"))
    api.up()
    until(lambda: names(reflector) == ["one", "two"])
    assert reflector.problem == ""
    assert api.count(PODS, watch=False) == 1, "it goes on from the version that it had"


def test_a_bookmark_moves_the_version_on(api: KubeApi, reflector: Reflector[str]) -> None:
    reflector.start()
    until(lambda: api.count(PODS, watch=True))
    api.bookmark(PODS)
    version = str(api._version)
    api.put(PODS, pod("9", "elsewhere", node="node-b"))  # none of ours, so only the bookmark tells a version
    until(lambda: reflector._version == version)
    api.down()
    api.up()
    until(lambda: any(f"resourceVersion={version}" in text for text in api.requests))


def test_an_error_event_of_another_kind_is_a_problem_and_then_a_new_list(
    api: KubeApi, reflector: Reflector[str], caplog: pytest.LogCaptureFixture
) -> None:
    reflector.start()
    until(lambda: api.count(PODS, watch=True))
    api.say(PODS, "ERROR", {"code": 500, "message": "etcd has no leader", "spec": {"nodeName": "node-a"}})
    # it is a problem for half a second, which nobody may see in time
    until(lambda: any("etcd" in str(vars(record)) for record in caplog.records))
    until(lambda: reflector.problem == "" and api.count(PODS, watch=False) == 2)


def test_a_pod_that_can_not_be_understood_does_not_end_the_watch(
    api: KubeApi, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with KubeClient(api.access) as client:
        reflector = Reflector(client, PODS, name_of, clock)
        reflector.start()
        until(lambda: api.count(PODS, watch=True))
        api.say(PODS, "ADDED", {"metadata": {"uid": "1"}})
        until(lambda: "KeyError" in caplog.text)
        api.put(PODS, pod("2", "two"))
        until(lambda: names(reflector) == ["two"])
        reflector.stop()


def test_the_token_is_read_anew_for_each_request(api: KubeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    api.token = "second"
    with KubeClient(KubeAccess(api.access.url, token)) as client:
        with pytest.raises(Unavailable, match="HTTP 401"):
            client.get(PODS)
        token.write_text("second\n")
        assert client.get(PODS)["items"] == []


def test_a_file_of_authorities_that_is_none_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca\.crt"):
        KubeClient(KubeAccess("https://127.0.0.1:1", ca_file=tmp_path / "ca.crt"))


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that is its own authority, and its key."""
    directory.mkdir()
    made = directory / "tls.crt", directory / "tls.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-out", str(made[0]), "-keyout", str(made[1])], check=True, capture_output=True)
    return made


def test_only_the_cluster_s_own_authority_is_trusted(tmp_path: Path) -> None:
    good, other = certificate(tmp_path / "good"), certificate(tmp_path / "other")
    server = KubeApi(certificate=good)
    url = server.access.url
    for access in (KubeAccess(url, ca_file=good[0]), KubeAccess(url, verify=False)):
        with KubeClient(access) as client:
            assert client.get(PODS)["items"] == []
    for access in (KubeAccess(url, ca_file=other[0]), KubeAccess(url)):
        with KubeClient(access) as client, pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            client.get(PODS)
    server.close()


def test_a_watch_over_tls_ends_when_it_is_told_to(tmp_path: Path, clock: ManualClock) -> None:
    files = certificate(tmp_path / "good")
    server = KubeApi(certificate=files)
    with KubeClient(KubeAccess(server.access.url, ca_file=files[0])) as client:
        reflector = Reflector(client, PODS, name_of, clock)
        reflector.start()
        until(lambda: server.count(PODS, watch=True))
        server.put(PODS, pod("1", "one"))
        until(lambda: names(reflector) == ["one"])
        reflector.stop()
        until(lambda: not reflector._thread.is_alive())
    server.close()


def test_outside_a_cluster_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="--kube-api"):
        KubeAccess.in_cluster()


def test_inside_a_cluster_the_service_account_lets_us_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    access = KubeAccess.in_cluster()
    assert access.url == "https://[fd00::1]:6443"
    assert access.verify
    assert access.token_file is not None


OLD = "/apis/resource.k8s.io/v1beta1/resourceslices"
OLDER = "/apis/resource.k8s.io/v1alpha3/resourceslices"


def test_an_older_server_is_asked_by_its_own_versions_and_an_upgraded_one_by_the_newest(
    clock: ManualClock,
) -> None:
    api = KubeApi(paths=(OLDER,))
    client = KubeClient(api.access)
    made = Reflector(client, SLICES, name_of, clock, {}, [OLD, OLDER])
    try:
        api.put(OLDER, pod("1", "old"))
        made.start()
        until(lambda: names(made) == ["old"])
        assert not made.is_absent
        assert made.problem == ""
        api.down()
        api.become(SLICES)
        api.put(SLICES, pod("2", "new"))
        api.up()
        until(lambda: names(made) == ["new"])
    finally:
        made.stop()
        client.close()
        api.close()


def test_a_server_that_has_none_of_the_versions_has_no_such_objects(clock: ManualClock) -> None:
    api = KubeApi(paths=(PODS,))
    client = KubeClient(api.access)
    made = Reflector(client, SLICES, name_of, clock, {}, [OLD, OLDER])
    try:
        made.start()
        until(lambda: made.is_absent)
        assert [api.count(path, watch=False) > 0 for path in (SLICES, OLD, OLDER)] == [True] * 3
        assert made.objects() is None
    finally:
        made.stop()
        client.close()
        api.close()
