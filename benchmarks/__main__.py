"""Run every benchmark, one after the other; each prints its figure and writes it to build/figures."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import benchmarks

SUPPORT = {"figures", "table", "__main__"}


def main() -> int:
    failed = []
    for module in sorted(pkgutil.iter_modules(benchmarks.__path__), key=lambda found: found.name):
        if module.name in SUPPORT or module.name.startswith("_"):
            continue
        print(f"\n== {module.name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{module.name}"], check=False).returncode:
            failed.append(module.name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
