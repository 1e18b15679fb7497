"""What the benchmarks offer in place of calls is made of the probes as they are now."""

from __future__ import annotations

from pathlib import Path

from benchmarks import _offering


def test_the_program_that_offers_calls_compiles_over_the_probes(tmp_path: Path) -> None:
    program, object_ = _offering.build(tmp_path)
    assert program.stat().st_size > 0
    assert object_.read_bytes()[:4] == b"\x7fELF"
