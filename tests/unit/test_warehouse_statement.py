"""Where a statement ends and its data begins, and what may not pass."""

from __future__ import annotations

import pytest

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode, http_status
from gpuledger.warehouse.embedded.lexer import TokenKind, tokens
from gpuledger.warehouse.embedded.policy import check
from gpuledger.warehouse.embedded.statement import parse


def words(sql: bytes) -> list[str]:
    return [token.text for token in tokens(sql) if token.kind is TokenKind.WORD]


def test_words_inside_strings_names_and_comments_are_not_words() -> None:
    sql = b"SELECT 'a FORMAT b', `c INTO`, \"d\", /* e INFILE */ f -- g\n, h # i\n FROM $x$ j $x$, k"
    assert words(sql) == ["SELECT", "f", "h", "FROM", "k"]


@pytest.mark.parametrize("quoted", [rb"'it\'s'", b"'it''s'", b'"it""s"', rb"`it\`s`"])
def test_an_escaped_quote_does_not_end_a_literal(quoted: bytes) -> None:
    assert words(b"SELECT " + quoted + b" FROM t") == ["SELECT", "FROM", "t"]


def test_data_of_an_insert_starts_behind_the_newline_after_its_format() -> None:
    statement = parse(b"INSERT INTO t (format, b) SETTINGS async_insert=0 FORMAT Native\n\n\x01;'")
    assert statement.sql == b"INSERT INTO t (format, b) SETTINGS async_insert=0 "
    assert (statement.input_format, statement.data) == ("Native", b"\n\x01;'")


def test_data_may_follow_its_format_on_the_same_line() -> None:
    assert parse(b'INSERT INTO t FORMAT JSONEachRow {"a":1}').data == b'{"a":1}'


def test_the_format_of_a_result_is_the_clause_and_no_column_of_that_name() -> None:
    assert parse(b"SELECT 1 FORMAT JSON").output_format == "JSON"
    assert parse(b"SELECT 1 FORMAT JSON SETTINGS max_threads=1").output_format == "JSON"
    assert parse(b"SELECT a AS format FROM t").output_format is None
    assert parse(b"SELECT 'x FORMAT CSV'").output_format is None


def test_two_statements_in_one_request_are_refused() -> None:
    with pytest.raises(EngineError, match="Multi-statements") as refused:
        parse(b"SELECT 1; DROP TABLE t")
    assert refused.value.code == ErrorCode.SYNTAX_ERROR
    assert parse(b"SELECT 1;").kind == "SELECT"


@pytest.mark.parametrize("text", [b"", b"  -- nothing\n", b"/* */"])
def test_an_empty_request_is_a_syntax_error(text: bytes) -> None:
    with pytest.raises(EngineError, match="Empty query"):
        parse(text)


def test_a_statement_of_megabytes_is_refused_before_it_is_read() -> None:
    with pytest.raises(EngineError) as refused:
        parse(b"SELECT " + b"1," * 300_000 + b"1")
    assert refused.value.http_status == 413


@pytest.mark.parametrize(
    "sql",
    [
        b"SELECT file('/etc/hostname')",
        b"SELECT FILE /* hidden */ ('/etc/hostname')",
        b"SELECT `file`('/etc/hostname')",
        rb'SELECT "\x66ile"' + b"('/etc/hostname')",
        rb'SELECT "fi\Nle"' + b"('/etc/hostname')",
        b"SELECT arrayMap(file, ['/etc/hostname'])",
        b"SELECT * APPLY file FROM (SELECT '/etc/hostname')",
        b"SELECT count() FROM `file`",
        b"SELECT arrayMap({f: Identifier}, ['/etc/hostname'])",
        b"INSERT INTO t VALUES (arrayMap({f:Identifier}, ['/etc/hostname'])[1])",
        b"INSERT INTO t VALUES (1) INTO OUTFILE '/tmp/x'",
        b"SELECT * FROM python(sys)",
        b"SELECT * FROM executable('x', 'TSV', 'a String')",
        b"SELECT 1 INTO OUTFILE '/tmp/x'",
        b"SELECT 1 INTO/**/OUTFILE '/tmp/x'",
        b"INSERT INTO t FROM INFILE '/etc/hostname' FORMAT CSV",
        b"INSERT INTO t VALUES (1, file('/etc/hostname'))",
        b"INSERT INTO t FORMAT Values\n(1, `file`('/etc/hostname'))",
        rb'INSERT INTO t VALUES ("\x66ile"' + b"('/etc/hostname'))",
        b"CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local)",
        b"ATTACH TABLE t FROM '/etc/' (a UInt8) ENGINE = MergeTree ORDER BY a",
        b"BACKUP TABLE t TO File('/tmp/x')",
        b"RESTORE TABLE t FROM File('/tmp/x')",
        b"EXPLAIN SELECT file('/etc/hostname')",
    ],
)
def test_a_statement_that_reaches_outside_the_data_path_is_refused(sql: bytes) -> None:
    with pytest.raises(EngineError) as refused:
        check(parse(sql))
    assert refused.value.code == ErrorCode.ACCESS_DENIED
    assert refused.value.http_status == 403


@pytest.mark.parametrize(
    "sql",
    [
        b"SELECT 'file(1)', files FROM t -- file",
        b"INSERT INTO t VALUES ('file'), ('into outfile'), ('; DROP TABLE t');",
        "SELECT 'Größe', \"größe\" FROM t /* // größe */".encode(),
        b"SELECT $a$ // $a$, x'616', 7 / 2 -- // /*",
        b"SELECT * FROM numbers(3)",
    ],
)
def test_a_harmless_statement_passes(sql: bytes) -> None:
    check(parse(sql))


@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT file{chr(space)}('/etc/hostname')".encode() for space in (0xA0, 0x85, 0x3000, 0xFEFF)),
        "SELECT 1 INTO\u2003OUTFILE '/tmp/x'".encode(),
        b"SELECT 1 INTO\x00OUTFILE '/tmp/x'",
        b"SELECT 1 // '\n INTO OUTFILE '/tmp/x' --'",
        b"SELECT 1 /* /* */ ' */ INTO OUTFILE '/tmp/x' --'",
        b"SELECT 1 */ 2",
        rb"SELECT x'41\' INTO OUTFILE '/tmp/x' --'",
        b"SELECT $a$ 'INTO OUTFILE '/tmp/x' --'",
        b"INSERT INTO t VALUES (1); DROP TABLE t",
        b"INSERT INTO t FORMAT Values (1);\nATTACH TABLE u FROM '/etc/' (a UInt8) ENGINE = Log",
    ],
)
def test_what_the_engine_may_read_differently_is_refused(sql: bytes) -> None:
    with pytest.raises(EngineError) as refused:
        check(parse(sql))
    assert refused.value.code == ErrorCode.SYNTAX_ERROR


def test_an_error_of_the_engine_keeps_its_code_and_words() -> None:
    error = EngineError.from_engine("Streaming insert failed: Code: 60. DB::Exception: no t. (UNKNOWN_TABLE)")
    assert (error.code, str(error)) == (60, "Code: 60. DB::Exception: no t. (UNKNOWN_TABLE)")
    assert error.http_status == 404


@pytest.mark.parametrize(
    ("code", "status"), [(62, 400), (516, 403), (60, 404), (48, 501), (159, 408), (241, 500)]
)
def test_http_status_is_the_one_of_clickhouse(code: int, status: int) -> None:
    assert http_status(code) == status
