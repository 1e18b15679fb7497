"""What Tetragon is told: the functions of the agent's own table, in words that Tetragon knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from gpuledger.agent.cli import app
from gpuledger.agent.probes.symbol import SILENT, Effect
from gpuledger.agent.probes.symbols import SYMBOLS
from gpuledger.agent.tetragon import POLICY_PREFIX, tracing_policies
from gpuledger.agent.tetragon.arguments import arguments_of
from gpuledger.contract.errors import ConfigError

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "deploy" / "tetragon" / "tracing-policies.yaml"
SCHEMA = json.loads((Path(__file__).parent / "data" / "tetragon-tracing-policy.schema.json").read_text())
TABLE = {symbol.name: symbol for symbol in SYMBOLS}


def policies(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def hooks(text: str) -> list[dict[str, Any]]:
    return [hook for policy in policies(text) for hook in policy["spec"]["uprobes"]]


def test_the_committed_file_is_what_the_table_gives() -> None:
    assert COMMITTED.read_text() == tracing_policies()


def test_every_policy_is_one_that_tetragon_takes() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for policy in policies(tracing_policies()):
        jsonschema.validate(policy, SCHEMA)
    names = [policy["metadata"]["name"] for policy in policies(tracing_policies())]
    assert len(set(names)) == len(names)
    assert all(name.startswith(POLICY_PREFIX) for name in names)


def test_the_schema_refuses_what_the_crd_refuses() -> None:
    (policy, *_) = policies(tracing_policies())
    policy["spec"]["uprobes"][0]["symbol"] = "cuLaunchKernel"  # of the first versions
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(policy, SCHEMA)


def test_each_function_stands_once_and_none_is_missing() -> None:
    listed = [name for hook in hooks(tracing_policies()) for name in hook["symbols"]]
    left_out = {s.name for s in SYMBOLS if s.effect in SILENT or s.effect is Effect.QUERY}
    assert sorted(listed) == sorted(TABLE.keys() - left_out)


def test_an_argument_is_the_one_that_the_table_of_probes_names() -> None:
    for hook in hooks(tracing_policies()):
        for name in hook["symbols"]:
            symbol = TABLE[name]
            given = {each["label"]: each["index"] + 1 for each in hook.get("args", [])}
            for label, place in given.items():
                if label != "function":
                    assert place == getattr(symbol, label), name
            assert list(given) == [each.name for each in arguments_of(symbol)]
    copy = arguments_of(TABLE["cuMemcpyHtoDAsync_v2"])
    assert [(each.name, each.place) for each in copy] == [("bytes", 2), ("stream", 3)]


def test_what_came_with_later_versions_does_not_spoil_the_policy_for_older_drivers() -> None:
    by_name = {policy["metadata"]["name"]: policy for policy in policies(tracing_policies())}
    first = {name for hook in by_name[POLICY_PREFIX]["spec"]["uprobes"] for name in hook["symbols"]}
    for later in (
        "cuLaunchKernelEx_ptsz",
        "cuCtxCreate_v4",
        "cuMemcpyBatchAsync",
        "cuCtxSynchronize_v2",
        "cuLaunch",
    ):
        assert later not in first
    assert {"cuLaunchKernel", "cuMemAllocAsync_ptsz", "cuCtxCreate_v3"} <= first


def test_for_one_library_there_is_one_policy_with_what_it_exports() -> None:
    text = tracing_policies("/lib/libcuda.so.1", {"cuLaunchKernel", "cuCtxCreate_v4", "cuStreamCreate"})
    (policy,) = policies(text)
    jsonschema.validate(policy, SCHEMA)
    assert {name for hook in hooks(text) for name in hook["symbols"]} == {"cuLaunchKernel", "cuCtxCreate_v4"}
    assert {hook["path"] for hook in hooks(text)} == {"/lib/libcuda.so.1"}


def test_the_command_prints_the_committed_file() -> None:
    assert CliRunner().invoke(app, ["tetragon-policy"]).stdout == COMMITTED.read_text()


def test_the_command_says_what_is_wrong_with_a_library(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no library")
    for name in ("nowhere", "text"):
        result = CliRunner().invoke(app, ["tetragon-policy", "--exported-by", str(tmp_path / name)])
        assert isinstance(result.exception, ConfigError)
