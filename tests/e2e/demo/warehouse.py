"""Questions to the ledger, over ClickHouse's own HTTP protocol, and how long a row took to get there."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.error
import urllib.request
from typing import Any

POLL_S = 0.1  # adds 0.05 s to a latency on average


def ask(url: str, query: str) -> list[dict[str, Any]]:
    """Rows of a query as mappings; 64-bit integers and decimals come as text, so nothing is rounded.

    Raises OSError, with ClickHouse's own words where it answered.
    """
    settings = "output_format_json_quote_64bit_integers=1&output_format_json_quote_decimals=1"
    request = urllib.request.Request(f"{url}/?{settings}", data=f"{query} FORMAT JSON".encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            rows: list[dict[str, Any]] = json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise OSError(f"{error.read().decode(errors='replace').strip()} in: {query.strip()}") from error
    return rows


class LatencyWatch(threading.Thread):
    """Looks ten times a second which windows can be queried, and notes when each was first seen."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._ended = threading.Event()
        self.seconds: dict[int, float] = {}  # window start (ms) -> seconds from the window's end to the row

    def run(self) -> None:
        """Poll until stopped; a query that fails is tried again, a late answer counts as late."""
        query = (
            "SELECT toUnixTimestamp64Milli(window_start) AS start, any(window_length_ns) AS length"
            " FROM charges WHERE state = 'complete' GROUP BY window_start"
        )
        while not self._ended.wait(POLL_S):
            try:
                rows = ask(self._url, query)
            except OSError:
                continue
            now = time.time()
            for row in rows:
                end_s = int(row["start"]) / 1e3 + int(row["length"]) / 1e9
                self.seconds.setdefault(int(row["start"]), now - end_s)

    def stop(self) -> list[float]:
        """The latencies seen, in seconds, ascending."""
        self._ended.set()
        self.join()
        return sorted(self.seconds.values())


def percentile(ascending: list[float], share: float) -> float | None:
    """Nearest-rank percentile; None of nothing."""
    if not ascending:
        return None
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]
