"""Run every benchmark, one after the other; each prints its figure and writes it to build/figures."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import benchmarks

SUPPORT = {"figures", "table", "__main__"}


def run(name: str) -> int:
    """Its exit status; told to end in the midst of it, so is the benchmark."""
    with subprocess.Popen([sys.executable, "-m", f"benchmarks.{name}"]) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            raise


def main() -> int:
    failed = []
    for module in sorted(pkgutil.iter_modules(benchmarks.__path__), key=lambda found: found.name):
        if module.name in SUPPORT or module.name.startswith("_"):
            continue
        print(f"\n== {module.name}", flush=True)
        if run(module.name):
            failed.append(module.name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
