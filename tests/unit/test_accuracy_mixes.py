"""The mixes that accuracy is measured on."""

from __future__ import annotations

from tests.accuracy.mixes import mixes


def test_there_are_at_least_fourteen_mixes_each_by_a_name_of_its_own() -> None:
    names = [mix.name for mix in mixes()]
    assert len(set(names)) == len(names) >= 14
    assert [mix.name for mix in mixes(held_out=True)] == names


def test_what_is_held_out_has_other_numbers_than_what_was_tuned_on() -> None:
    for tuned, held_out in zip(mixes(), mixes(held_out=True), strict=True):
        same = [
            one.arguments
            for one, other in zip(tuned.programs, held_out.programs, strict=True)
            if one.arguments == other.arguments and not one.arguments.startswith("idle")
        ]
        assert same == [], tuned.name


def test_no_two_processes_of_all_mixes_have_one_seed() -> None:
    seeds = [program.arguments.rpartition(" ")[2] for mix in mixes(seed=7) for program in mix.programs]
    assert len(set(seeds)) == len(seeds)
    assert min(map(int, seeds)) >= 7
