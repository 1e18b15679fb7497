"""The CronJobs of commitments: valid, no more rights than needed, commands that there are."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from gpuledger.cli import app
from gpuledger.configuration.commitments_cli import MAX_RANGE_NS
from gpuledger.configuration.reading import span
from gpuledger.contract.windows import DAY_NS

ROOT = Path(__file__).parents[2]
VERSIONS = ("1.31", "1.34", "1.37")  # the oldest that clouds still run, one between, the newest published
JOBS = ("gpuledger-commitments", "gpuledger-commitments-late")


def jobs() -> dict[str, dict[str, Any]]:
    text = (ROOT / "deploy" / "kubernetes" / "commitments.yaml").read_text()
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(text)}


def pod(name: str) -> dict[str, Any]:
    return dict(jobs()[name]["spec"]["jobTemplate"]["spec"]["template"]["spec"])


def container(name: str) -> dict[str, Any]:
    (one,) = pod(name)["containers"]
    return dict(one)


def parameters(name: str) -> dict[str, Any]:
    """What the command of a job is called with."""
    command: Any = typer.main.get_command(app)
    words = list(container(name)["args"])
    while hasattr(command, "get_command"):
        command = command.get_command(None, words.pop(0))
    with command.make_context(name, words) as context:
        return dict(context.params)


@pytest.mark.parametrize(("name", "version"), list(itertools.product(JOBS, VERSIONS)))
def test_it_is_valid_by_the_published_schema(name: str, version: str) -> None:
    assert jobs()[name]["kind"] == "CronJob"
    kubernetes_validate.validate(jobs()[name], version, strict=True)


def test_there_is_one_each_hour_and_one_each_night_for_all_that_the_ledger_keeps() -> None:
    hourly, nightly = (jobs()[name]["spec"]["schedule"].split() for name in JOBS)
    assert hourly[1:] == ["*"] * 4
    assert nightly[2:] == ["*"] * 3
    assert nightly[1].isdigit()
    assert [span(parameters(name)["back"], "--back") for name in JOBS] == [DAY_NS, 34 * DAY_NS]
    assert MAX_RANGE_NS - DAY_NS == 34 * DAY_NS  # a day is left for runs that are late


@pytest.mark.parametrize("name", JOBS)
def test_it_publishes_once_and_is_tried_again_where_something_is_away(name: str) -> None:
    assert parameters(name)["publish"]
    assert parameters(name)["every"] is None
    spec = jobs()[name]["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["timeZone"] == "Etc/UTC"
    assert pod(name)["restartPolicy"] == "Never"
    assert spec["jobTemplate"]["spec"]["backoffLimit"] >= 3


@pytest.mark.parametrize("name", JOBS)
def test_a_container_is_no_root_has_no_token_and_can_write_nowhere(name: str) -> None:
    context = container(name)["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert not context["privileged"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert all(mount["readOnly"] for mount in container(name)["volumeMounts"])
    for kind in ("requests", "limits"):
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container(name)["resources"][kind])
    assert pod(name)["automountServiceAccountToken"] is False
    assert pod(name)["securityContext"]["runAsNonRoot"]
    assert pod(name)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod(name))


def test_it_reads_the_warehouse_with_a_user_that_writes_nothing() -> None:
    for name in JOBS:
        (volume,) = pod(name)["volumes"]
        assert volume["secret"]["secretName"] == "gpuledger-warehouse-reader"
        (url,) = (one for one in container(name)["env"] if one["name"] == "GPULEDGER_WAREHOUSE_URL")
        assert url["valueFrom"]["secretKeyRef"]["name"] == "gpuledger-warehouse-reader"
    granted = (ROOT / "docs" / "prices.md").read_text()
    assert "GRANT SELECT ON gpuledger.* TO gpuledger_reader" in granted
