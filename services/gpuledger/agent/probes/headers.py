"""Kernel headers and Debian's bcc where a machine does not offer them in place."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Final

SOURCES: Final = Path("/usr/src")
DEBIAN_BCC: Final = Path("/usr/lib/python3/dist-packages/bcc")
ENVIRONMENT: Final = "BCC_KERNEL_SOURCE"

_CHECKOUT: Final = Path(__file__).resolve().parents[4]
_BUILD: Final = (
    _CHECKOUT / "build" if (_CHECKOUT / "pyproject.toml").is_file() else Path("/var/cache/gpuledger")
)
DESTINATION: Final = _BUILD / "kernel-headers"


def prepare_kernel_headers(destination: Path = DESTINATION, sources: Path = SOURCES) -> Path | None:
    """A directory of kernel headers that bcc can compile against, None where the machine has none.

    In order: ``BCC_KERNEL_SOURCE`` as set by the user; the running kernel's own build directory; a tree of
    links at ``destination`` that merges the newest pair of Debian header packages under ``sources``
    (``linux-headers-*-common`` and the flavour beside it). The probes touch no structure of those headers,
    so their version need not be the kernel's. Nothing under /lib/modules is changed.
    """
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named) if Path(named, "include").is_dir() else None
    own = Path("/lib/modules", os.uname().release, "build")
    if (own / "include").is_dir():
        return own
    pair = _newest_pair(sources)
    if pair is None:
        return None
    link_tree(pair, destination)
    return destination


def _newest_pair(sources: Path) -> tuple[Path, Path] | None:
    pairs = []
    for common in sources.glob("linux-headers-*-common"):
        stem = common.name.removesuffix("common")
        pairs += [(common, other) for other in sources.glob(stem + "*") if other != common]
    return max(pairs, key=lambda pair: pair[1].stat().st_mtime_ns, default=None)


def link_tree(layers: tuple[Path, ...], destination: Path) -> None:
    """Makes ``destination`` show the files of all ``layers``, later over earlier ones, by links alone."""
    destination.mkdir(parents=True, exist_ok=True)
    for name in {entry.name for layer in layers for entry in layer.iterdir()}:
        having = tuple(layer / name for layer in layers if (layer / name).exists())
        link = destination / name
        if len(having) > 1 and all(path.is_dir() for path in having):
            if link.is_symlink():
                link.unlink()
            link_tree(having, link)
        elif not link.is_symlink() or link.readlink() != having[-1]:
            link.unlink(missing_ok=True)
            link.symlink_to(having[-1])


def link_bcc(source: Path = DEBIAN_BCC) -> Path | None:
    """Makes Debian's bcc importable from this environment by one link, and nothing else of Debian's.

    Returns where bcc is, None where the package is not installed.
    """
    spec = importlib.util.find_spec("bcc")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    if not source.is_dir():
        return None
    link = Path(sysconfig.get_path("purelib")) / "bcc"
    if link.is_symlink():
        link.unlink()
    link.symlink_to(source)
    importlib.invalidate_caches()
    return link
