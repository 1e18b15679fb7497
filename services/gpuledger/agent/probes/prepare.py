"""``python -m gpuledger.agent.probes.prepare``: makes bcc and kernel headers ready, says what it found."""

from __future__ import annotations

import sys

from gpuledger.agent.probes.headers import link_bcc, prepare_kernel_headers


def main() -> int:
    """Exit code 1 where something is missing."""
    bcc, tree = link_bcc(), prepare_kernel_headers()
    print(f"bcc: {bcc or 'missing, install python3-bpfcc'}")
    print(f"kernel headers: {tree or 'missing, install linux-headers for this machine'}")
    return 0 if bcc and tree else 1


if __name__ == "__main__":
    sys.exit(main())
