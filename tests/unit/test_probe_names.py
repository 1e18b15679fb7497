"""The table of probed functions against all that the CUDA driver API has."""

from __future__ import annotations

import re
from pathlib import Path

from gpuledger.agent.probes.symbols import SYMBOLS

DATA = Path(__file__).parent / "data"
TABLE = {symbol.name for symbol in SYMBOLS}
_TWIN = re.compile(r"_pt[sd]z$|_ptds$")
_VERSION = re.compile(r"_v\d$")


def _names(file: str) -> list[str]:
    lines = (DATA / file).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


EXPORTED = _names("cuda-driver-functions.txt")
LEFT_OUT = _names("cuda-driver-left-out.txt")


def _stem(name: str) -> str:
    """Without version and twin: what the function is called in the API."""
    return _VERSION.sub("", _TWIN.sub("", name))


def test_every_function_of_the_driver_is_probed_or_has_a_reason_not_to_be() -> None:
    assert len(EXPORTED) == len(set(EXPORTED)) > 500
    assert sorted(set(EXPORTED) - TABLE) == sorted(LEFT_OUT)


def test_what_is_left_out_stands_below_a_reason() -> None:
    (_, *groups) = (DATA / "cuda-driver-left-out.txt").read_text().split("\n\n")
    assert groups
    for group in groups:
        reason, *names = group.splitlines()
        assert reason.startswith("# ")
        assert names
        assert not [name for name in names if name.startswith("#")]
    assert sum(len(group.splitlines()) - 1 for group in groups) == len(LEFT_OUT)


def test_every_probed_name_is_a_function_of_the_driver() -> None:
    stems = {_stem(name) for name in EXPORTED}
    assert {name for name in TABLE if _stem(name) not in stems} == set()


def test_a_probed_function_is_probed_in_each_of_its_forms() -> None:
    """None of its versions, nor its twin for the per-thread default stream, goes by unseen."""
    probed = {_stem(name) for name in TABLE}
    assert [name for name in EXPORTED if _stem(name) in probed and name not in TABLE] == []
