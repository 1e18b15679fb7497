"""URLs and errors of the warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, ProgrammingError

from gpuledger.contract.errors import ConfigError, WarehouseError, WarehouseUnavailable
from gpuledger.warehouse import parse_url
from gpuledger.warehouse.client import translated


def test_a_url_names_host_port_user_password_and_database() -> None:
    url = parse_url("clickhouse://ann:p%40ss@ch.example:9999/ledger", {})
    assert (url.host, url.port, url.user, url.password, url.database) == (
        "ch.example",
        9999,
        "ann",
        "p@ss",
        "ledger",
    )


@pytest.mark.parametrize(
    ("text", "port", "secure"),
    [
        ("clickhouse://h", 8123, False),
        ("http://h", 8123, False),
        ("clickhouses://h", 8443, True),
        ("https://h/d", 8443, True),
    ],
)
def test_the_scheme_decides_port_and_encryption(text: str, port: int, secure: bool) -> None:
    url = parse_url(text, {})
    assert (url.port, url.secure) == (port, secure)


def test_a_password_comes_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hush\n")
    url = parse_url("clickhouse://h", {"GPULEDGER_WAREHOUSE_PASSWORD_FILE": str(secret)})
    assert url.password == "hush"
    assert "hush" not in f"{url} {url!r}"


@pytest.mark.parametrize("text", ["h:8123", "kafka://h", "clickhouse://", "clickhouse://h:port"])
def test_a_url_that_means_nothing_is_a_mistake_of_the_caller(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_url(text, {})


@pytest.mark.parametrize(
    ("raised", "ours"),
    [
        (DatabaseError("Code: 60. DB::Exception: no", code=60), WarehouseError),
        (DatabaseError("Code: 202. DB::Exception: busy", code=202), WarehouseUnavailable),
        (DatabaseError("Code: 242. DB::Exception: readonly", code=242), WarehouseUnavailable),
        (DatabaseError("HTTP driver received HTTP status 502"), WarehouseUnavailable),
        (OperationalError("connection refused"), WarehouseUnavailable),
        (ProgrammingError("bad parameter"), WarehouseError),
    ],
)
def test_an_error_says_whether_the_same_call_may_succeed_later(
    raised: Exception, ours: type[Exception]
) -> None:
    with pytest.raises(ours), translated(parse_url("clickhouse://h", {})):
        raise raised
