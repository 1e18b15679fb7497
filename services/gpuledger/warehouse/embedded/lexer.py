"""Just enough of ClickHouse's lexer to find keywords outside strings, quoted names and comments.

Token rules: ClickHouse, src/Parsers/Lexer.cpp. The engine itself parses the statement; this one only has
to agree with it on where a literal, a quoted name or a comment ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


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


# Bare words are ASCII. Any other byte is a symbol of its own, so that no exotic space can hide a word.
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_$]*")
_NUMBER = re.compile(rb"[0-9][A-Za-z0-9_.]*")
_SPACE = re.compile(rb"[ \t\r\n\f\v\x00]+")
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
    body = re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m.group(1), 16)), body)
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
            at = len(sql) if end < 0 else end + 2
        elif (quote := sql[at : at + 1]) in _QUOTES:
            end = _quoted_end(sql, at, quote)
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
            end = match.end() if found < 0 else found + len(match.group())
            yield Token(
                TokenKind.STRING,
                sql[match.end() : max(match.end(), found)].decode("utf-8", "replace"),
                at,
                end,
            )
            at = end
        elif match := _NUMBER.match(sql, at) or _WORD.match(sql, at):
            kind = TokenKind.NUMBER if match.group()[:1].isdigit() else TokenKind.WORD
            yield Token(kind, match.group().decode("utf-8", "replace"), at, match.end())
            at = match.end()
        else:
            yield Token(TokenKind.SYMBOL, sql[at : at + 1].decode("latin-1"), at, at + 1)
            at += 1
