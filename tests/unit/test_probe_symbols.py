"""The table of probed functions and what is made of it for the kernel side."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuledger.agent.probes.bcc import source_text
from gpuledger.agent.probes.events import RAW_EVENT, Losses
from gpuledger.agent.probes.symbols import SYMBOLS, Effect, Limits, Symbol, c_preamble, cookie
from gpuledger.contract.operations import Operation


def defines(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)$", text, re.M)}


def test_every_function_is_named_once() -> None:
    names = [symbol.name for symbol in SYMBOLS]
    assert len(names) == len(set(names))


def test_every_kind_of_request_that_is_charged_or_shown_has_a_function() -> None:
    seen = {symbol.operation for symbol in SYMBOLS}
    assert seen == {op for op in Operation if op < 100}


def test_cookies_differ_and_carry_what_the_kernel_side_reads() -> None:
    values = defines(c_preamble(Limits(), {}))
    cookies = {cookie(symbol) for symbol in SYMBOLS}
    assert len(cookies) == len(SYMBOLS)
    assert max(cookies) < 2**64
    for symbol in SYMBOLS:
        for name in (
            "operation",
            "effect",
            "bytes",
            "scale",
            "pointer",
            "stream",
            "device",
            "space",
            "rows",
            "dimensions",
        ):
            shift, bits = values[f"COOKIE_{name.upper()}_SHIFT"], values[f"COOKIE_{name.upper()}_BITS"]
            assert cookie(symbol) >> shift & (1 << bits) - 1 == int(getattr(symbol, name))


def test_a_number_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        cookie(Symbol("cuNew", Operation.OTHER, bytes=9))


def test_every_name_that_the_source_uses_is_defined() -> None:
    text = source_text()
    known = defines(c_preamble(Limits(), {}))
    used = set(re.findall(r"\b(?:EFFECT|SPACE|LOSS|COUNT|MAX)_[A-Z_]+\b", text)) | {"RING_PAGES"}
    used |= {f"COOKIE_{name}_SHIFT" for name in re.findall(r"COOKIE\(\w+(?:->\w+)?, (\w+)\)", text)} - {
        "COOKIE_NAME_SHIFT"
    }
    assert used <= known.keys()
    assert {f"EFFECT_{effect.name}" for effect in Effect} <= known.keys()


def test_the_record_in_the_source_has_the_fields_of_the_dtype_in_order() -> None:
    assert RAW_EVENT.names is not None
    body = re.search(r"struct event \{(.*?)\};", source_text(), re.S)
    assert body is not None
    fields = re.findall(r"([us])(\d+) (\w+);", body[1])
    kinds = {"u": "u", "s": "i"}
    assert [(name, f"<{kinds[sign]}{int(bits) // 8}") for sign, bits, name in fields] == [
        (name, RAW_EVENT[name].str) for name in RAW_EVENT.names
    ]


def test_only_calls_without_an_event_count_as_lost_events() -> None:
    losses = Losses(1, 20, 300, 4000, 50_000, 600_000, 7_000_000, 80_000_000)
    assert losses.events == 4321


@pytest.mark.parametrize("size", [0, 1000, 4096 * 3, -4096])
def test_a_ring_that_the_kernel_would_refuse_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Limits(ring_bytes=size)


def test_the_source_is_one_text_with_each_part_in_it_once() -> None:
    text = source_text()
    assert '#include "' not in text
    begin = r"^(?:static __always_inline |(?:PROBE |TRACEPOINT\(\w+\) )int )"
    parts = set((Path(__file__).parents[2] / "bpf").iterdir())
    for part in parts - {path for path in parts if path.name in ("object.h", "nvidia.bpf.c", "cudart.bpf.c")}:
        for name in re.findall(rf"{begin}.*?(\w+)\(", part.read_text(), re.M):
            assert len(re.findall(rf"{begin}[^(=]*\b{name}\(", text, re.M)) == 1
