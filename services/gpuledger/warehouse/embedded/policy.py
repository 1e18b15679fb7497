"""The statements that the embedded server refuses before the engine sees them.

chDB speaks for ClickHouse's server and its client in one process. What the client part does (INTO OUTFILE,
FROM INFILE), what reads a path without asking for a grant (``file('path')`` as a scalar function, ATTACH ...
FROM), and what chDB adds (``Python(...)``) is not covered by grants, so it is refused here. Everything else
is left to the engine's own access control (access.py).

The refused names may stand nowhere but in strings, comments and data: a function need not be called to be
used (``arrayMap(file, ...)``, ``* APPLY file``), and a name may come in as a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode
from gpuledger.warehouse.embedded.lexer import Token, TokenKind, tokens
from gpuledger.warehouse.embedded.statement import Statement

REFUSED_KINDS = {"ATTACH", "DETACH", "BACKUP", "RESTORE", "GRANT", "REVOKE", "EXECUTE", "MOVE"}
# Compared in lower case: the engine takes some of its function names in any case.
REFUSED_NAMES = {"file", "filecluster", "python", "executable", "executablepool", "disk", "chdb"}
_CLIENT_SIDE = {"OUTFILE": "INTO OUTFILE", "INFILE": "FROM INFILE"}


def check(statement: Statement) -> None:
    """Raise EngineError (ACCESS_DENIED) when the statement reaches outside the data path."""
    if statement.kind in REFUSED_KINDS:
        raise _denied(f"{statement.kind} is not allowed")
    _check_tokens(statement.tokens)
    if _SUSPECT.search(statement.values):
        _check_tokens(_of_one_statement(tokens(statement.values)))


# Rows of VALUES are long: they are read only where a refused name, a quoted name or a semicolon occurs.
_SUSPECT = re.compile(
    b'(?i)[`";\xe2]|'
    + b"|".join(
        name.encode() for name in sorted({*REFUSED_NAMES, *map(str.lower, _CLIENT_SIDE), "identifier"})
    )
)


def _of_one_statement(stream: Iterable[Token]) -> Iterator[Token]:
    """The tokens; behind the rows of VALUES the engine would go on with a second statement."""
    ended = False
    for token in stream:
        if ended and token.text != ";":
            raise EngineError(ErrorCode.SYNTAX_ERROR, "Syntax error: Multi-statements are not allowed")
        ended = ended or (token.kind is TokenKind.SYMBOL and token.text == ";")
        yield token


def _check_tokens(stream: Iterable[Token]) -> None:
    before = ""
    for token in stream:
        if token.kind is TokenKind.WORD and token.text.upper() in _CLIENT_SIDE:
            raise _denied(f"{_CLIENT_SIDE[token.text.upper()]} is not allowed")
        if token.kind in _NAMES and token.text.strip().lower() in REFUSED_NAMES:
            raise _denied(f"{token.text} is not allowed: it reaches outside the data path")
        if before == ":" and token.is_word("IDENTIFIER"):
            raise _denied("A parameter of type Identifier is not allowed")
        before = token.text


_NAMES = (TokenKind.WORD, TokenKind.QUOTED_NAME)


def _denied(message: str) -> EngineError:
    return EngineError(ErrorCode.ACCESS_DENIED, f"{message} on the embedded server")
