"""Kernel headers and Debian's bcc where a machine does not offer them in place."""

from __future__ import annotations

import importlib.util
import os
import sys
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
    for layer in pair:
        _link_tree(layer, destination, pair)
    return destination


def _newest_pair(sources: Path) -> tuple[Path, Path] | None:
    pairs = []
    for common in sources.glob("linux-headers-*-common"):
        stem = common.name.removesuffix("common")
        pairs += [(common, other) for other in sources.glob(stem + "*") if other != common]
    return max(pairs, key=lambda pair: pair[1].stat().st_mtime_ns, default=None)


def _link_tree(layer: Path, destination: Path, layers: tuple[Path, Path], below: Path = Path()) -> None:
    """Links what only ``layer`` has, and goes down where several layers have a directory."""
    (destination / below).mkdir(parents=True, exist_ok=True)
    for entry in (layer / below).iterdir():
        name = below / entry.name
        shared = all((other / name).is_dir() for other in layers)
        if shared:
            _link_tree(layer, destination, layers, name)
            continue
        link = destination / name
        if not link.is_symlink() and not link.exists():
            link.symlink_to(entry)
        elif layer == layers[-1] and link.is_symlink() and link.readlink() != entry:
            link.unlink()
            link.symlink_to(entry)


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


def main() -> int:
    """``python -m gpuledger.agent.probes.headers``: prepares both and says what it found."""
    bcc, tree = link_bcc(), prepare_kernel_headers()
    print(f"bcc: {bcc or 'missing, install python3-bpfcc'}")
    print(f"kernel headers: {tree or 'missing, install linux-headers for this machine'}")
    return 0 if bcc and tree else 1


if __name__ == "__main__":
    sys.exit(main())
