"""``python -m tests.chaos.replayed replay ...``: gpuledger whose ranges begin and end with any second.

What lies in Kafka, computed again by the product's own replay, must be what was charged, to the byte.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from gpuledger.cli import main
from gpuledger.contract.windows import NS_PER_S
from gpuledger.pricing.yaml_values import instant_ns
from gpuledger.replay import asked
from tests.chaos.settings import CLUSTER, SILENCE_S

COMMAND_S = 240.0
MOST_SHOWN = 5
LEDGERS = ("gpu.charges", "the warehouse")


def replayed(
    environment: Mapping[str, str], state: Path, from_ns: int, to_ns: int
) -> tuple[dict[str, int], list[str]]:
    """How many windows of each ledger were compared in a range of whole seconds; what differs, in words."""
    times = [datetime.fromtimestamp(ns // NS_PER_S, UTC).isoformat() for ns in (from_ns, to_ns)]
    command = [sys.executable, "-m", "tests.chaos.replayed", "replay", "--from", times[0], "--to", times[1]]
    command += ["--cluster", CLUSTER, "--check", "--against", "both", "--processes", "1", "--json"]
    env = {**os.environ, **environment, "GPULEDGER_PROCESSOR_SILENCE_S": str(SILENCE_S)}
    done = subprocess.run(
        [*command, "--state", str(state)], env=env, capture_output=True, text=True, timeout=COMMAND_S
    )
    try:
        ledgers = json.loads(done.stdout)["ledgers"]
    except (ValueError, KeyError):
        return {}, [f"the replay ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}"]
    wrong = [
        f"replayed from {times[0]} to {times[1]}, {found['different']} of {found['compared']} windows are "
        f"others in {name}: {found['windows'][:MOST_SHOWN]}"
        for name, found in ledgers.items()
        if found["different"]
    ]
    wrong += [f"not compared with {name}" for name in LEDGERS if not ledgers.get(name, {}).get("compared")]
    if done.returncode and not wrong:
        wrong.append(f"the replay ended with {done.returncode}")
    return {name: found["compared"] for name, found in ledgers.items()}, wrong


if __name__ == "__main__":
    asked.instant = lambda text, option: instant_ns(text)
    main()
