"""The registry's framing around a body."""

from __future__ import annotations

import pytest

from gpuledger.contract.errors import BadRecord
from gpuledger.contract.wire import MAX_SCHEMA_ID, frame, unframe


@pytest.mark.parametrize("schema_id", [0, 1, 258, MAX_SCHEMA_ID])
def test_a_framed_body_comes_back_with_its_schema_id(schema_id: int) -> None:
    message = frame(schema_id, b"body")
    assert message[:5] == b"\0" + schema_id.to_bytes(4, "big")
    for form in (message, memoryview(message)):
        found, body = unframe(form)
        assert found == schema_id
        assert body == b"body"


def test_the_body_is_not_copied() -> None:
    message = frame(7, b"body")
    assert unframe(message)[1].obj is message


@pytest.mark.parametrize("message", [b"", b"\0", b"\0\0\0\0", b"\x01\0\0\0\x07body", b"\0\x80\0\0\0body"])
def test_what_is_not_framed_is_refused(message: bytes) -> None:
    with pytest.raises(BadRecord) as caught:
        unframe(message)
    assert caught.value.reason == "bad_frame"
    assert caught.value.position in (0, 1)


@pytest.mark.parametrize("schema_id", [-1, MAX_SCHEMA_ID + 1])
def test_a_number_that_no_registry_hands_out_is_not_framed(schema_id: int) -> None:
    with pytest.raises(ValueError, match="schema id"):
        frame(schema_id, b"")
