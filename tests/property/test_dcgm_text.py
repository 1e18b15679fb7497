"""No text, however broken, raises in the reader of expositions, or takes it more than linear time."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger.agent.dcgm import parse_exposition

UUID = "GPU-1f83cb94-9ac5-4ddb-9ba9-e6da50d87cda"
GOOD = (
    "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
    f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{UUID}",GPU_I_ID="7",namespace="n",pod="p",container="c"}} 37\n'
    f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{UUID}",err_msg="a"b\\"}} 0.5 1712345678 # {{a="b"}} 1\n'
    "go_goroutines 8\n"
)
PIECES = st.sampled_from(
    [*'{}",=\\\n\r\t #', "DCGM_FI_DEV_GPU_UTIL", 'UUID="', 'GPU_I_ID="', '"} 5', "1e999", "NaN", "<<<", "..."]
)


def check(text: str) -> None:
    found = parse_exposition(text)
    assert 0 <= found.skipped_lines <= text.count("\n") + 1
    for sample in found.samples:
        assert sample.uuid
        assert sample.value is None or math.isfinite(sample.value)


@given(st.text())
def test_random_text_is_read_without_an_error(text: str) -> None:
    check(text)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_pieces_of_the_format_in_any_order_are_read_without_an_error(text: str) -> None:
    check(text)


@settings(max_examples=300)
@given(st.lists(st.lists(PIECES, max_size=5).map("".join), min_size=1, max_size=4))
def test_labels_of_any_kind_between_a_name_and_a_value_are_read_without_an_error(blocks: list[str]) -> None:
    check("\n".join(f'DCGM_FI_DEV_GPU_UTIL{{{block}"}} 5' for block in blocks))


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 9), PIECES | st.text(max_size=4)), max_size=6
    )
)
def test_a_scrape_that_was_cut_and_mutated_is_read_without_an_error(
    edits: list[tuple[int, int, str]],
) -> None:
    text = GOOD
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    check(text)


@given(st.text(alphabet=st.characters(exclude_characters="\0"), max_size=30))
def test_no_pod_label_hides_the_value_or_the_device(value: str) -> None:
    text = f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{UUID}",x="{value}",namespace="n",pod="p"}} 37\n'
    found = [s for s in parse_exposition(text).samples if s.field == "DCGM_FI_DEV_GPU_UTIL"]
    if not any(character in value for character in '"\\\n{}'):
        assert [(s.uuid, s.value, s.pod) for s in found] == [(UUID, 37.0, "p")]
    assert all(s.uuid == UUID for s in found)


@pytest.mark.parametrize(
    "piece",
    [
        '"',
        '"} ',
        '",a',
        '"},',
        "A{",
        'A{a="b\n',
        '\nA{a="b"',
        "9",
        " ",
        ',a="',
        'A{UUID="x"} 1 #',
        "\n",
        '\nx"}',
    ],
)
def test_time_grows_as_the_text_does(piece: str) -> None:
    def seconds(count: int) -> float:
        text = 'DCGM_X{UUID="y' + piece * count
        began = time.process_time()
        parse_exposition(text)
        return time.process_time() - began

    small = min(seconds(2_000) for _ in range(3))
    assert seconds(40_000) < 20 * 8 * max(small, 0.002)
