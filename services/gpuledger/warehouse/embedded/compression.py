"""Content encodings of HTTP bodies, as ClickHouse and its clients use them: gzip, deflate, lz4, zstd."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame

from gpuledger.warehouse.embedded.errors import EngineError, ErrorCode

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1  # speed over size: the peer is usually on the same machine or rack


def decode(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Undo a Content-Encoding; never makes more than ``limit_bytes`` (a bomb is refused, not unpacked).

    Raises EngineError: UNSUPPORTED_MEDIA_TYPE, CANNOT_DECOMPRESS or QUERY_IS_TOO_LARGE.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in _DECOMPRESSORS:
        raise EngineError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, f"Unknown Content-Encoding {encoding!r}")
    try:
        return _decode_all(body, _DECOMPRESSORS[encoding], limit_bytes)
    except (OSError, EOFError, RuntimeError, zlib.error, zstd.ZstdError) as error:
        raise EngineError(
            ErrorCode.CANNOT_DECOMPRESS, f"Cannot decompress {encoding} body: {error}"
        ) from error


def encode(body: bytes, accept: str) -> tuple[bytes, str | None]:
    """Compress ``body`` with the first encoding of the Accept-Encoding header that is known here."""
    for part in accept.split(","):
        name = part.split(";")[0].strip().lower()
        if name in _COMPRESSORS:
            return _COMPRESSORS[name](body), name
    return body, None


def _decode_all(body: bytes, make: Callable[[], Any], limit_bytes: int) -> bytes:
    """Decompress a body of one or several frames."""
    parts: list[bytes] = []
    size = 0
    rest = body
    while rest:
        decompressor = make()
        chunk = decompressor.decompress(rest, limit_bytes - size + 1)
        size += len(chunk)
        if size > limit_bytes:
            raise EngineError(ErrorCode.QUERY_IS_TOO_LARGE, f"Body is larger than {limit_bytes} bytes")
        parts.append(chunk)
        if not decompressor.eof:
            raise EOFError("the body ends inside a frame")
        rest = decompressor.unused_data or b""
    return b"".join(parts)


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "deflate": zlib.decompressobj,
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": zstd.ZstdDecompressor,
}
_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "lz4": lambda body: bytes(lz4.frame.compress(body)),
    "zstd": lambda body: zstd.compress(body, _LEVEL),
    "gzip": lambda body: gzip.compress(body, _LEVEL),
    "deflate": lambda body: zlib.compress(body, _LEVEL),
}
