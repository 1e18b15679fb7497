"""What a client of the embedded server may not do: reach this machine's files, programs and network."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from gpuledger.warehouse.embedded.process import EmbeddedWarehouse

pytest_plugins = ["tests.support.warehouse"]

ACCESS_DENIED, CONSTRAINT = "497", "452"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text("hush\n")
    return path


def ask(server: EmbeddedWarehouse, query: str, **parameters: str) -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{server.port}/", params=parameters, content=query, timeout=240)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM file('{path}', 'LineAsString')",
        "SELECT file('{path}')",
        "SELECT * FROM '{path}'",
        "SELECT * FROM default.`{path}`",
        "SELECT * FROM `{path}`",
        "CREATE TABLE x (a String) ENGINE = File(CSV, '{path}')",
        "CREATE DATABASE x ENGINE = Filesystem('/')",
        "CREATE DICTIONARY x (a Int8) PRIMARY KEY a SOURCE(FILE(path '{path}' format 'CSV')) LAYOUT(FLAT)",
        "INSERT INTO FUNCTION file('{path}.new', 'CSV', 'a String') SELECT 'x'",
        "SELECT 1 INTO OUTFILE '{path}.new'",
        "SELECT 'a' AS a FORMAT Template SETTINGS format_template_row = '{path}'",
        "SELECT 'a' AS a FORMAT Protobuf SETTINGS format_schema = '{path}:Message'",
        "CREATE TABLE x (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(path = '{path}.d/')",
        "CREATE TABLE x (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS storage_policy = 'other'",
        "ATTACH TABLE x FROM '{path}.d/' (a UInt8) ENGINE = MergeTree ORDER BY a",
        "BACKUP DATABASE gpuledger TO File('{path}.new')",
        "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
        "SELECT * FROM remote('127.0.0.1:9', 'system.one')",
        "SELECT * FROM s3('https://bucket.s3.amazonaws.com/key', 'CSV', 'a String')",
        "SELECT * FROM mysql('127.0.0.1:9', 'd', 't', 'u', 'p')",
        "SELECT * FROM sqlite('{path}', 't')",
        "SELECT * FROM executable('cat', 'TSV', 'a String')",
        "SELECT * FROM Python(path)",
        "CREATE TABLE x (a UInt8) ENGINE = URL('http://127.0.0.1:9/', 'CSV')",
        "CREATE FUNCTION x AS (a) -> a",
        "CREATE USER x",
        "GRANT READ ON FILE TO default",
        "SYSTEM SHUTDOWN",
        "SET max_memory_usage = 0",
        "DROP DATABASE default",
    ],
)  # fmt: skip
def test_a_statement_that_reaches_outside_is_refused(
    embedded: EmbeddedWarehouse, secret: Path, query: str
) -> None:
    answer = ask(embedded, query.format(path=secret))
    assert answer.status_code >= 400
    assert "hush" not in answer.text
    code = answer.headers["X-ClickHouse-Exception-Code"]
    unknown = {"60", "81"} if query[:15] in ("SELECT * FROM `", "SELECT * FROM '") else set()
    assert code in {ACCESS_DENIED, CONSTRAINT} | unknown
    assert sorted(path.name for path in secret.parent.iterdir()) == ["secret.csv"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("INSERT INTO parameters FORMAT CSV\n1\n", "x = 1; SELECT 1 INTO OUTFILE '{path}.new'; SET param_y"),
        ("SELECT 1", "x = 1; SELECT 1 INTO OUTFILE '{path}.new'; SET param_y"),
        ("INSERT INTO parameters FORMAT CSV\n1\n", "x = 1, max_memory_usage"),
    ],
)
def test_the_name_of_a_parameter_is_no_way_in(
    embedded: EmbeddedWarehouse, secret: Path, query: str, name: str
) -> None:
    ask(embedded, "CREATE TABLE IF NOT EXISTS parameters (a UInt8) ENGINE = MergeTree ORDER BY a")
    answer = ask(embedded, query, **{f"param_{name.format(path=secret)}": "1"})
    assert answer.headers["X-ClickHouse-Exception-Code"] == "36"
    assert sorted(path.name for path in secret.parent.iterdir()) == ["secret.csv"]


def test_rows_of_values_are_followed_by_no_second_statement(embedded: EmbeddedWarehouse) -> None:
    ask(embedded, "CREATE TABLE IF NOT EXISTS rows_of_values (a UInt8) ENGINE = MergeTree ORDER BY a")
    answer = ask(embedded, "INSERT INTO rows_of_values VALUES (1);\nDROP TABLE rows_of_values")
    assert answer.headers["X-ClickHouse-Exception-Code"] == "62"
    assert ask(embedded, "SELECT count() FROM rows_of_values").status_code == 200


@pytest.mark.parametrize(
    "name", ["format_template_row", "format_schema", "format_avro_schema_registry_url", "max_memory_usage"]
)
def test_a_setting_that_names_a_file_or_lifts_a_limit_is_constant(
    embedded: EmbeddedWarehouse, name: str
) -> None:
    answer = ask(embedded, "SELECT 1", **{name: "7"})
    assert answer.headers["X-ClickHouse-Exception-Code"] == CONSTRAINT


def test_what_a_ledger_needs_is_allowed(embedded: EmbeddedWarehouse) -> None:
    for query in (
        "CREATE DATABASE IF NOT EXISTS allowed",
        "CREATE TABLE IF NOT EXISTS allowed.t (a UInt64) ENGINE = ReplacingMergeTree ORDER BY a",
        "INSERT INTO allowed.t SELECT number FROM numbers(3)",
        "CREATE OR REPLACE VIEW allowed.v AS SELECT * FROM allowed.t FINAL",
        "SELECT * FROM allowed.v",
        "OPTIMIZE TABLE allowed.t FINAL",
        "ALTER TABLE allowed.t ADD COLUMN b String",
        "SELECT name FROM system.tables WHERE database = 'allowed'",
        "EXPLAIN SELECT * FROM allowed.v",
        "DROP DATABASE allowed",
    ):
        answer = ask(embedded, query)
        assert answer.status_code == 200, answer.text
