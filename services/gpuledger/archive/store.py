"""Where an archive lies: a directory, or an object store by URL (``s3://bucket/prefix``, any of fsspec's).

Two ways to write: ``put`` replaces as a whole, ``create`` never replaces. Either is all there or not at all,
also after a crash, and durable when it returns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import fsspec

from gpuledger.contract.errors import ConfigError, StoreUnavailable

_TEMPORARY = ".part-"  # beginning of the names of files that are being written


class Store(Protocol):
    """Named objects of bytes; names have slashes. Every method raises StoreUnavailable."""

    @property
    def url(self) -> str:
        """Where it is, without secrets."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of any of that name."""

    def create(self, name: str, data: bytes) -> None:
        """Write an object that is not there yet. Raises FileExistsError where it is."""

    def get(self, name: str) -> bytes:
        """The bytes of an object. Raises FileNotFoundError."""

    def names(self, prefix: str) -> list[str]:
        """The names that begin with ``prefix`` and a slash, sorted."""

    def delete(self, name: str) -> None:
        """Remove an object; none of that name is no error."""


class Directory:
    """A directory of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def url(self) -> str:
        """See Store."""
        return str(self._root)

    def put(self, name: str, data: bytes) -> None:
        """See Store."""
        with self._written(name, data) as (temporary, target):
            temporary.replace(target)

    def create(self, name: str, data: bytes) -> None:
        """See Store."""
        with self._written(name, data) as (temporary, target):
            target.hardlink_to(temporary)

    def get(self, name: str) -> bytes:
        """See Store."""
        with _translated(self.url):
            return (self._root / name).read_bytes()

    def names(self, prefix: str) -> list[str]:
        """See Store."""
        root = self._root / prefix
        with _translated(self.url):
            return sorted(
                str(path.relative_to(self._root))
                for path in root.rglob("*")
                if path.is_file() and not path.name.startswith(_TEMPORARY)
            )

    def delete(self, name: str) -> None:
        """See Store."""
        with _translated(self.url):
            (self._root / name).unlink(missing_ok=True)

    @contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[tuple[Path, Path]]:
        """(a durable file with the data, where it belongs); what was done to it inside is durable too."""
        target = self._root / name
        with _translated(self.url):
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(prefix=_TEMPORARY, dir=target.parent)
            temporary = Path(path)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                yield temporary, target
                _sync(target.parent)
            finally:
                temporary.unlink(missing_ok=True)


class Objects:
    """A prefix of an object store that fsspec reaches; its clients take secrets from the environment."""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        with _translated(url):
            self._fs, self._root = fsspec.url_to_fs(
                url, use_listings_cache=False, skip_instance_cache=True, **(options or {})
            )
        self._url = url

    @property
    def url(self) -> str:
        """See Store."""
        return self._url

    def put(self, name: str, data: bytes) -> None:
        """See Store."""
        with _translated(self._url):
            self._fs.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> None:
        """See Store. The store itself refuses a second one (If-None-Match)."""
        with _translated(self._url):
            self._fs.pipe_file(self._path(name), data, mode="create")

    def get(self, name: str) -> bytes:
        """See Store."""
        with _translated(self._url):
            found: bytes = self._fs.cat_file(self._path(name))
            return found

    def names(self, prefix: str) -> list[str]:
        """See Store."""
        with _translated(self._url):
            found = self._fs.find(self._path(prefix))
        return sorted(path[len(self._root) :].lstrip("/") for path in found)

    def delete(self, name: str) -> None:
        """See Store."""
        with _translated(self._url):
            try:
                self._fs.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def open_store(url: str) -> Store:
    """The store at a URL or a path. Raises ConfigError for one that can not be a store."""
    parts = urlsplit(url)
    if not parts.scheme or parts.scheme == "file":
        directory = Path(parts.path if parts.scheme else url)
        if directory.exists() and not directory.is_dir():
            raise ConfigError("is a file; an archive is a directory", str(directory))
        return Directory(directory)
    if parts.username or parts.password:
        raise ConfigError(
            "the archive's URL holds a secret; give it to the store's client in the environment"
        )
    if parts.scheme not in fsspec.available_protocols():
        raise ConfigError(f"{parts.scheme}:// is no store; give a directory, s3://bucket/prefix or another")
    try:
        return Objects(url)
    except ImportError as error:
        raise ConfigError(f"{parts.scheme}:// needs another package: {error}") from None


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Clients of object stores raise errors of their own beside OSError."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, NotADirectoryError, ImportError):
        raise
    except Exception as error:
        raise StoreUnavailable(f"the archive at {url}: {error or type(error).__name__}") from error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
