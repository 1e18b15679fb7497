"""The formats of exports, and one way to read them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any, cast

import ijson

from gpuledger.contract.errors import ConfigError
from gpuledger.pricing.imports import aws, azure, csv_prices, gcp
from gpuledger.pricing.imports.offers import MAX_EXPORT_BYTES, Offers, Open


def _aws(open_export: Open, name: str, offers: Offers) -> None:
    """JSON or CSV, as its first character says."""
    with open_export() as stream:
        start = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    (aws.read_json if start.startswith(b"{") else aws.read_csv)(open_export, name, offers)


FORMATS: Mapping[str, Callable[[Open, str, Offers], None]] = {
    "csv": csv_prices.read_csv,
    "aws": _aws,
    "azure": azure.read_json,
    "gcp": gcp.read_json,
}


def read_export(form: str, open_export: Open, name: str, offers: Offers) -> None:
    """Add what an export offers. Raises ConfigError where it is not of that format, or over a limit."""

    def limited() -> IO[bytes]:
        return cast(IO[bytes], _Limited(open_export(), name))

    try:
        FORMATS[form](limited, name, offers)
    except ijson.JSONError as error:
        raise ConfigError(f"this is no JSON: {' '.join(str(error).split())[:200]}", name) from None
    except UnicodeDecodeError:
        raise ConfigError("this is not UTF-8", name) from None


class _Limited:
    """A stream that ends in an error where it is longer than an export may be."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._left = MAX_EXPORT_BYTES

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._count(len(data))
        return data

    read1 = read

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ConfigError(
                f"it has more than {MAX_EXPORT_BYTES} bytes; take one region's file", self._name
            )

    def __enter__(self) -> _Limited:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
