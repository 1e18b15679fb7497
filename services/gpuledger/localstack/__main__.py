"""`python -m gpuledger.localstack fetch [DIRECTORY]`: what the servers need, downloaded and prepared once."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuledger.localstack import StackError, archive_classes

DEFAULT_DIRECTORY = Path("build/stack")


def main(argv: list[str]) -> int:
    """Fetch into DIRECTORY (build/stack); 2 on wrong arguments, 1 when it cannot be done."""
    if not argv or argv[0] != "fetch" or len(argv) > 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        archive_classes(Path(argv[1]) if len(argv) == 2 else DEFAULT_DIRECTORY)
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
