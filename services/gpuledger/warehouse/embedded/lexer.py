"""Just enough of ClickHouse's lexer to find keywords outside strings, quoted names and comments.

Token rules: ClickHouse, src/Parsers/Lexer.cpp. The engine itself parses the statement; this one has to
agree with it on where a literal, a quoted name or a comment ends, else a word could hide from whoever looks
for it. What the two may read differently, and no statement needs, is refused as a syntax error: bytes beyond
printable ASCII outside of quotes (the engine knows some two dozen kinds of space), comments in comments,
comments that begin with //, a heredoc without an end, a backslash in a hexadecimal or binary string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode


class TokenKind(Enum):
    """What a token is; whitespace and comments are not reported."""

    WORD = "word"
    QUOTED_NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


class Token(NamedTuple):
    """A token with its byte range ``[start, end)``; ``text`` is unquoted and undecorated."""

    kind: TokenKind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether this is one of the (upper-case) bare words."""
        return self.kind is TokenKind.WORD and self.text.upper() in words


_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_$]*")
_NUMBER = re.compile(rb"[0-9][A-Za-z0-9_.]*")
_SPACE = re.compile(rb"[ \t\r\n\f\v]+")
_PRINTABLE = range(0x21, 0x7F)
_HEREDOC = re.compile(rb"\$[A-Za-z0-9_]*\$")
_LINE_COMMENT = re.compile(rb"--|#!|# ")
_QUOTES = {b"'": TokenKind.STRING, b"`": TokenKind.QUOTED_NAME, b'"': TokenKind.QUOTED_NAME}
_CURLY_QUOTES = {
    b"\xe2\x80\x98": (b"\xe2\x80\x99", TokenKind.STRING),
    b"\xe2\x80\x9c": (b"\xe2\x80\x9d", TokenKind.QUOTED_NAME),
}


def _quoted_end(sql: bytes, position: int, quote: bytes) -> int:
    """The offset behind the closing quote; the end of the text when it is missing."""
    at = position + 1
    while at < len(sql):
        byte = sql[at : at + 1]
        if byte == b"\\":
            at += 2
        elif byte == quote:
            if sql[at + 1 : at + 2] != quote:
                return at + 1
            at += 2
        else:
            at += 1
    return len(sql)


_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "e": "\x1b",
}


def _unquote(raw: bytes) -> str:
    quote = raw[:1].decode()
    body = raw[1:-1].decode("utf-8", "replace").replace(quote + quote, quote)
    body = re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m.group(1), 16)), body.replace("\\N", ""))
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), body, flags=re.DOTALL)


def tokens(sql: bytes) -> Iterator[Token]:
    """Yield the tokens of ``sql`` lazily, so that inline data behind FORMAT or VALUES is never read."""
    at = 0
    while at < len(sql):
        if match := _SPACE.match(sql, at):
            at = match.end()
        elif _LINE_COMMENT.match(sql, at):
            end = sql.find(b"\n", at)
            at = len(sql) if end < 0 else end + 1
        elif sql.startswith(b"/*", at):
            end = sql.find(b"*/", at + 2)
            at, started = (len(sql) if end < 0 else end + 2), at
            if b"/*" in sql[started + 2 : at]:
                raise _unclear(started, "a comment in a comment")
        elif (quote := sql[at : at + 1]) in _QUOTES:
            end = _quoted_end(sql, at, quote)
            if sql[at - 1 : at].lower() in (b"x", b"b") and b"\\" in sql[at:end]:
                raise _unclear(at, "a backslash in a hexadecimal or binary string")
            yield Token(_QUOTES[quote], _unquote(sql[at:end]), at, end)
            at = end
        elif sql[at : at + 3] in _CURLY_QUOTES:
            closing, kind = _CURLY_QUOTES[sql[at : at + 3]]
            found = sql.find(closing, at + 3)
            end = len(sql) if found < 0 else found + 3
            yield Token(kind, sql[at + 3 : end - 3].decode("utf-8", "replace"), at, end)
            at = end
        elif match := _HEREDOC.match(sql, at):
            found = sql.find(match.group(), match.end())
            if found < 0:
                raise _unclear(at, "a heredoc without an end")
            end = found + len(match.group())
            yield Token(TokenKind.STRING, sql[match.end() : found].decode("utf-8", "replace"), at, end)
            at = end
        elif match := _NUMBER.match(sql, at) or _WORD.match(sql, at):
            kind = TokenKind.NUMBER if match.group()[:1].isdigit() else TokenKind.WORD
            yield Token(kind, match.group().decode("utf-8", "replace"), at, match.end())
            at = match.end()
        elif sql[at] not in _PRINTABLE:
            raise _unclear(at, f"the byte 0x{sql[at]:02x} outside of quotes")
        elif sql[at : at + 2] in (b"//", b"*/"):
            raise _unclear(at, f"{sql[at : at + 2].decode()} outside of comments")
        else:
            yield Token(TokenKind.SYMBOL, chr(sql[at]), at, at + 1)
            at += 1


def _unclear(position: int, what: str) -> EngineError:
    return EngineError(
        ErrorCode.SYNTAX_ERROR, f"Syntax error: failed at position {position + 1}: {what} is not allowed"
    )
