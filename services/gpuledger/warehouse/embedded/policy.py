"""The statements that the embedded server refuses before the engine sees them.

chDB speaks for ClickHouse's server and its client in one process. What the client part does (INTO OUTFILE,
FROM INFILE), what reads a path without asking for a grant (``file('path')`` as a scalar function, ATTACH ...
FROM), and what chDB adds (``Python(...)``) is not covered by grants, so it is refused here. Everything else
is left to the engine's own access control (access.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode
from gpuledger.warehouse.embedded.lexer import Token, TokenKind, tokens
from gpuledger.warehouse.embedded.statement import Statement

REFUSED_KINDS = {"ATTACH", "DETACH", "BACKUP", "RESTORE", "GRANT", "REVOKE", "EXECUTE", "MOVE"}
# Compared in lower case: the engine takes some of its function names in any case.
REFUSED_FUNCTIONS = {"file", "filecluster", "python", "executable", "executablepool", "disk", "chdb"}
_CLIENT_SIDE = (("INTO", "OUTFILE"), ("FROM", "INFILE"))


def check(statement: Statement) -> None:
    """Raise EngineError (ACCESS_DENIED) when the statement reaches outside the data path."""
    if statement.kind in REFUSED_KINDS:
        raise _denied(f"{statement.kind} is not allowed")
    _check_tokens(statement.tokens)
    if _SUSPECT.search(statement.values):
        _check_tokens(tokens(statement.values))


# Rows of VALUES are long: they are read only if a refused name, or a quoted name, occurs at all.
_SUSPECT = re.compile(b'(?i)[`"\xe2]|' + b"|".join(sorted(name.encode() for name in REFUSED_FUNCTIONS)))


def _check_tokens(stream: Iterable[Token]) -> None:
    for left, right in pairwise(stream):
        if any(left.is_word(first) and right.is_word(second) for first, second in _CLIENT_SIDE):
            raise _denied(f"{left.text.upper()} {right.text.upper()} is not allowed")
        if right.text == "(" and right.kind is TokenKind.SYMBOL and _names(left, REFUSED_FUNCTIONS):
            raise _denied(f"{left.text}() is not allowed: it reaches outside the data path")


def _names(token: Token, names: set[str]) -> bool:
    return token.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME) and token.text.lower() in names


def _denied(message: str) -> EngineError:
    return EngineError(ErrorCode.ACCESS_DENIED, f"{message} on the embedded server")
