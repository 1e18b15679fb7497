"""ClickHouse's error codes as the embedded server meets them, and the HTTP status of each.

Codes: ClickHouse, src/Common/ErrorCodes.cpp. Status: src/Server/HTTP/exceptionCodeToHTTPStatus.cpp.
"""

from __future__ import annotations

import re
from enum import IntEnum


class ErrorCode(IntEnum):
    """The codes that this server raises itself; the engine raises any other."""

    BAD_ARGUMENTS = 36
    NOT_IMPLEMENTED = 48
    SYNTAX_ERROR = 62
    READONLY = 164
    TOO_MANY_SIMULTANEOUS_QUERIES = 202
    SOCKET_TIMEOUT = 209
    QUERY_IS_TOO_LARGE = 229
    NOT_ENOUGH_SPACE = 243
    CANNOT_DECOMPRESS = 271
    SESSION_NOT_FOUND = 372
    SESSION_IS_LOCKED = 373
    ACCESS_DENIED = 497
    AUTHENTICATION_FAILED = 516
    UNSUPPORTED_MEDIA_TYPE = 779
    UNKNOWN_EXCEPTION = 1002


_BAD_REQUEST = {
    6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321, 376, 427, 441, 675,
    676,
}  # fmt: skip
_FORBIDDEN = {192, 193, 497, 512, 516}
_NOT_FOUND = {46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511}
_STATUS = (
    dict.fromkeys(_BAD_REQUEST, 400)
    | dict.fromkeys(_FORBIDDEN, 403)
    | dict.fromkeys(_NOT_FOUND, 404)
    | {48: 501, 76: 503, 159: 408, 194: 401, 209: 503, 229: 413, 381: 411, 439: 503, 779: 415}
)

_CODE = re.compile(r"Code: (\d+)\. DB::Exception: ")


class EngineError(Exception):
    """A refusal with ClickHouse's code; ``str()`` is the body that ClickHouse sends."""

    def __init__(self, code: int, message: str) -> None:
        name = f" ({ErrorCode(code).name})" if code in ErrorCode._value2member_map_ else ""
        super().__init__(f"Code: {int(code)}. DB::Exception: {message}{name}")
        self.code = int(code)

    @property
    def http_status(self) -> int:
        """The status with which ClickHouse answers this code."""
        return http_status(self.code)

    @classmethod
    def from_engine(cls, text: str) -> EngineError:
        """Turn the text of a chDB exception into an EngineError that keeps its code and wording."""
        match = _CODE.search(text)
        if match is None:
            return cls(ErrorCode.UNKNOWN_EXCEPTION, text.strip() or "the engine gave no message")
        error = cls(int(match.group(1)), "")
        error.args = (text[match.start() :].strip(),)
        return error


def http_status(code: int) -> int:
    """HTTP status of a ClickHouse error code; 500 for all that are not special."""
    return _STATUS.get(code, 500)
