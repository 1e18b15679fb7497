"""``make demo``: from a CUDA call in a pod to a row of money, on real parts, checked against the truth.

SECONDS_OF_WORK=60 is how long the pods work; KEEP=1 leaves everything up and prints how to query it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gpuledger.contract.errors import GpuledgerError
from tests.e2e.demo.run import Demo
from tests.e2e.demo.services import ROOT, DemoError, Stack
from tests.emulator import EmulatorError

DIRECTORY = ROOT / "build" / "demo"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("SECONDS_OF_WORK", "60")))
    parser.add_argument("--keep", action="store_true", default=os.environ.get("KEEP", "") not in ("", "0"))
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    return parser.parse_args()


def bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
    )


def play(
    console: Console, options: argparse.Namespace, stack: Stack, demo: Demo, began: float
) -> dict[str, object]:
    """The whole show; returns the report."""
    with bar(console) as progress:
        task = progress.add_task("Starting", total=7, note="")
        for name in stack.start():
            progress.update(task, description=f"Starting {name}", advance=1)
        progress.update(task, description="Starting the node's agent and its pods", advance=1)
        demo.start()
        progress.update(task, description="Everything is up", completed=7)
        task = progress.add_task("Pods at work", total=options.seconds, note="")
        for elapsed, note in demo.work(options.seconds):
            progress.update(task, completed=elapsed, note=note)
            for line in demo.news():
                progress.console.print(line, highlight=False)
        task = progress.add_task("Closing the node's last window", total=1, note="")
        demo.finish(console.width)
        for line in demo.news():
            progress.console.print(line, highlight=False)
        progress.update(task, completed=1)
    report = demo.report(console)
    report["seconds"] = round(time.monotonic() - began, 1)
    return report


def main() -> int:
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 150)
    for number in ENDINGS:  # a background job has SIGINT ignored, and SIGTERM would end nothing but this
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    stack = Stack(options.directory)
    demo = Demo(stack)
    console.print(demo.first_line, markup=False, highlight=False)
    try:
        report = play(console, options, stack, demo, began)
        path = options.directory / "report.json"
        path.write_text(json.dumps(report, indent=2) + "\n")
        verdict = demo.show_verdict(console, report)
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        console.print(f"Report: {shown}", highlight=False)
        if options.keep:
            keep(console, stack, demo)
        return 0 if verdict else 1
    except (DemoError, EmulatorError, GpuledgerError, OSError) as error:
        console.print(f"demo failed: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; stopping everything")
        return 130
    finally:
        for number in ENDINGS:
            signal.signal(number, signal.SIG_IGN)  # whatever was started is stopped to the last
        demo.stop()
        stack.stop()


def keep(console: Console, stack: Stack, demo: Demo) -> None:
    """Leave it up until Ctrl-C, and say how to ask it."""
    assert demo.closing is not None
    example = "SELECT team, sum(used), sum(held_idle) FROM charges GROUP BY team"
    names = ("GPULEDGER_WAREHOUSE_URL", "GPULEDGER_KAFKA_BOOTSTRAP", "GPULEDGER_REGISTRY_URL")
    lines = [
        *(f"export {name}={stack.env[name]}" for name in names),
        ".venv/bin/gpuledger spend --by pod --since 1h",
        ".venv/bin/gpuledger budget status",
        f".venv/bin/gpuledger {' '.join(demo.closing.recommend)}",
        f'.venv/bin/gpuledger sql "{example}"',
        '.venv/bin/gpuledger sql "SELECT since, state, message FROM breaches ORDER BY since"',
        f"curl '{stack.warehouse_url}/' -d '{example}'",
        f"curl '{stack.alertmanager_url}/api/v2/alerts'",
    ]
    console.print("\nStill up. In another terminal, for example:", highlight=False)
    for line in lines:
        console.print(f"  {line}", highlight=False, soft_wrap=True, markup=False)
    console.print(f"In a browser: {stack.alertmanager_url}", highlight=False)
    console.print("Ctrl-C stops it.", highlight=False)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            stack.check()
            time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
