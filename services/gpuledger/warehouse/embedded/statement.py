"""One statement as it arrives over HTTP: its kind, its SQL, and where inline data begins."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode
from gpuledger.warehouse.embedded.lexer import Token, TokenKind, tokens

# A statement longer than this is inline data without FORMAT, or an attack on the parser: ClickHouse's own
# max_query_size default, counted without the data behind INSERT ... FORMAT.
MAX_STATEMENT_BYTES = 262_144

_ROWS_FROM = {
    "SELECT",
    "WITH",
    "SHOW",
    "DESCRIBE",
    "DESC",
    "EXPLAIN",
    "EXISTS",
    "CHECK",
    "FROM",
    "(",
    "VALUES",
}
# Only these change nothing: what a GET may carry.
_READS = _ROWS_FROM | {"USE", "SET"}


@dataclass(frozen=True)
class Statement:
    """``sql`` is what the engine gets; ``data`` what follows FORMAT of an INSERT, in ``input_format``.

    ``tokens`` are those of ``sql`` up to VALUES; ``values`` is what follows VALUES or FORMAT Values, in
    which the engine evaluates expressions. ``output_format`` is the FORMAT clause of a statement that
    returns rows, None when it has none.
    """

    kind: str
    sql: bytes
    tokens: tuple[Token, ...]
    input_format: str | None = None
    data: bytes = b""
    values: bytes = b""
    output_format: str | None = None

    @property
    def returns_rows(self) -> bool:
        """Whether a result follows (and so the header that names its format)."""
        return self.kind in _ROWS_FROM

    @property
    def reads_only(self) -> bool:
        """Whether it may be sent with GET."""
        return self.kind in _READS


def parse(text: bytes) -> Statement:
    """Split ``text`` into statement and inline data.

    Raises EngineError for an empty text (as ClickHouse: SYNTAX_ERROR), for several statements in one
    request, and for a statement above MAX_STATEMENT_BYTES.
    """
    seen: list[Token] = []
    depth = 0
    output_format = None
    for token in tokens(text):
        if token.start > MAX_STATEMENT_BYTES:
            raise EngineError(
                ErrorCode.QUERY_IS_TOO_LARGE, f"Query is too large: more than {MAX_STATEMENT_BYTES} bytes"
            )
        if seen and seen[-1].text == ";" and seen[-1].kind is TokenKind.SYMBOL:
            if token.text == ";":
                continue
            raise EngineError(ErrorCode.SYNTAX_ERROR, "Syntax error: Multi-statements are not allowed")
        if token.kind is TokenKind.SYMBOL:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth == 0 and seen and seen[-1].is_word("FORMAT") and token.kind is TokenKind.WORD:
            if _first(seen) == "INSERT":
                start = _data_start(text, token.end)
                sql = text[: seen[-1].start]
                data = text[start:]
                values = data if token.text.upper() == "VALUES" else b""
                return Statement("INSERT", sql, tuple(seen[:-1]), token.text, data, values)
            output_format = token.text
        elif (
            output_format
            and token.text != ";"
            and seen[-1].text == output_format
            and not token.is_word("SETTINGS")
        ):
            output_format = None  # "format" was a name, not the clause
        seen.append(token)
        if depth == 0 and _first(seen) == "INSERT" and token.is_word("VALUES") and len(seen) > 2:
            # The rest is for the engine's own parser, and may be of any length.
            return Statement("INSERT", text, tuple(seen), values=text[token.end :])
    if not seen:
        raise EngineError(
            ErrorCode.SYNTAX_ERROR, "Syntax error: failed at position 1 (end of query): Empty query"
        )
    return Statement(_first(seen), text, tuple(seen), output_format=output_format)


def _first(seen: list[Token]) -> str:
    return seen[0].text.upper()


_BEFORE_DATA = re.compile(rb"[ \t\f]*\r?\n?")


def _data_start(text: bytes, format_end: int) -> int:
    """Data starts behind the first newline, or behind the spaces (ClickHouse, ParserInsertQuery.cpp)."""
    match = _BEFORE_DATA.match(text, format_end)
    return match.end() if match else format_end
