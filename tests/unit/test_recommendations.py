"""Each rule with its arithmetic, as the documentation tells it, and when it keeps silent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpuledger.recommend import (
    Evidence,
    NodeUse,
    Saving,
    Settings,
    Stranded,
    recommend,
)
from gpuledger.recommend.rules.slices import unknown_models
from gpuledger.recommend.show import without_advice
from gpuledger.spend.words import money
from tests.support.changes import CHANGES
from tests.support.evidence import HOUR_S, MONDAY_S, evidence, hours, workload
from tests.support.recommended import only

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "recommendations.md").read_text()
WEEK = 168


def documented(rule: str) -> str:
    """What the documentation says that the example of a rule saves."""
    line = next(line for line in DOCUMENT.splitlines() if re.match(rf"\| .*`{rule}`.*\|$", line))
    return line.split("|")[-2].strip()


def a_job(count: int, **more: object) -> Evidence:
    job = workload(hours(count, used=0.9), workload="Job/render", pods=5, life_s=2 * HOUR_S)
    return evidence(count, workloads=[replace(job, **more)])


def of_working_hours(number: int) -> float:
    """65 of a week's hours."""
    return 0.5 if number // 24 < 5 and 7 <= number % 24 < 20 else 0.0


def node(found: Sequence[int], **more: object) -> NodeUse:
    """One that costs 98.32 an hour; 1 in ``found`` is an hour in which a GPU was held."""
    made = [
        hour._replace(total_ns=hour.total_ns * held)
        for hour, held in zip(hours(len(found), gpus=8), found, strict=True)
    ]
    return NodeUse("prod", "n7", "p5.48xlarge", "on_demand", "USD", made, **more)  # type: ignore[arg-type]


def examples() -> dict[str, Evidence]:
    l4 = workload(hours(48, used=0.2, memory_gib=5), gpu_model="NVIDIA L4")
    seventh = hours(48, gpus=1 / 7)
    beside = ("prod", "n1", "GPU-1", "NVIDIA H100 80GB HBM3", "3g.40gb#1, 3g.40gb#2", "USD")
    return {
        "idle": evidence(48, workloads=[workload(hours(48, used=0.02))]),
        "warm_idle": evidence(48, workloads=[workload(hours(48, gpus=2))]),
        "mig_slice": evidence(48, workloads=[workload(hours(48, used=0.2))]),
        "mps": evidence(48, workloads=[l4]),
        "node_unallocated": evidence(8, nodes=[node([0] * 8)]),
        "stranded_slices": evidence(48, stranded=[Stranded(*beside, seventh)]),
        "spot": replace(a_job(48), spot_ratio={"NVIDIA H100 80GB HBM3": 0.4}),
        "schedule": evidence(WEEK, workloads=[workload(hours(WEEK, used=of_working_hours, memory_gib=75))]),
    }


@pytest.mark.parametrize("rule", examples())
def test_an_example_of_the_documentation_saves_what_is_written_there(rule: str) -> None:
    found = only(examples()[rule])
    assert found.rule == rule
    assert money(found.saving.nano) == documented(rule)
    assert (found.saving.low_nano or 0) <= (found.saving.nano or 0) <= (found.saving.high_nano or 0)
    assert all((found.risk, found.change, found.finding))


def test_idle_is_counted_up_to_now_and_without_a_break() -> None:
    busy_at_last = workload(hours(48, used=lambda number: 0.5 if number == 47 else 0.0, memory_gib=70))
    busy_a_day_ago = workload(hours(48, used=lambda number: 0.5 if number == 30 else 0.0, memory_gib=70))
    gone = workload(hours(40, memory_gib=70))
    unheard = workload([hour for hour in hours(48, memory_gib=70) if hour.start_s != MONDAY_S + 40 * HOUR_S])
    for one in (busy_at_last, busy_a_day_ago, gone, unheard):
        assert recommend(evidence(48, workloads=[one]), Settings()) == []
    later = only(evidence(48, workloads=[busy_a_day_ago]), Settings(idle_hours=17))
    assert (later.evidence.start_s, later.evidence.length_s) == (MONDAY_S + 31 * HOUR_S, 17 * HOUR_S)


def test_a_weekend_is_no_idleness_of_what_works_on_weekdays() -> None:
    found = workload(hours(WEEK, used=of_working_hours, memory_gib=75), workload="Pod/notebook")
    assert recommend(evidence(WEEK, workloads=[found]), Settings()) == []
    until_tuesday = replace(found, hours=[*found.hours, *hours(24, memory_gib=75, first=WEEK)])
    assert only(evidence(WEEK + 24, workloads=[until_tuesday])).rule == "warm_idle"


def test_what_was_given_back_already_is_promised_no_more() -> None:
    fewer = workload([*hours(40, gpus=4, memory_gib=70), *hours(8, memory_gib=70, first=40)])
    saved = only(evidence(48, workloads=[fewer])).saving
    assert money(saved.nano) == "8,971.70"
    assert round(saved.gpu_hours) == 730


def test_each_team_has_its_own_limits() -> None:
    settings = Settings(teams={"research": {"active_percent": 1.0}, "ads": {"idle_hours": 100}})
    uses = [
        workload(hours(48, used=0.02, memory_gib=70), team=team, namespace=team)
        for team in ("search", "research", "ads")
    ]
    assert [one.team for one in recommend(evidence(48, workloads=uses), settings)] == ["search"]


def test_a_workload_that_is_idle_on_one_device_and_works_on_another_is_not_scaled_to_zero() -> None:
    idle, works = hours(48, memory_gib=70), hours(48, used=0.6, memory_gib=70)
    uses = [workload(idle), workload(works, gpu_model="NVIDIA H200", sharing="time_slicing")]
    assert not {one.rule for one in recommend(evidence(48, workloads=uses), Settings())} & {
        "idle",
        "warm_idle",
    }


def test_a_slice_has_room_for_the_busiest_hour_and_the_most_memory() -> None:
    def profile(used: float, memory_gib: float) -> str:
        found = hours(48, used=lambda number: used if number == 5 else 0.06, memory_gib=memory_gib)
        made = recommend(evidence(48, workloads=[workload(found)]), Settings())
        return " ".join(word for one in made for word in re.findall(r"mig-(\S+):", one.change))

    assert profile(used=0.1, memory_gib=5) == "1g.10gb"
    assert profile(used=0.1, memory_gib=12) == "1g.20gb"
    assert profile(used=0.3, memory_gib=12) == "3g.40gb"
    assert profile(used=0.45, memory_gib=5) == "4g.40gb"
    assert profile(used=0.9, memory_gib=5) == ""
    assert profile(used=0.1, memory_gib=70) == ""


def test_models_of_which_no_slice_is_known_are_named() -> None:
    """The ledger names them as the driver does."""
    names = ["NVIDIA H20-3e", "NVIDIA GB300", "NVIDIA A40-12Q", "NVIDIA H100 80GB HBM3", "Tesla T4", ""]
    uses = [workload(hours(48, used=0.1), gpu_model=name) for name in names]
    sliced = workload(hours(48, used=0.1), gpu_model="NVIDIA GB200", mig_profile="1g.23gb")
    found = evidence(48, workloads=[*uses, sliced])
    unknown = ["NVIDIA A40-12Q", "NVIDIA GB300", "NVIDIA H20-3e"]
    assert unknown_models(found) == unknown
    assert ", ".join(unknown) in without_advice(unknown).plain
    slices = ("mig_slice", "time_slicing", "mps")
    for name in unknown:
        use = evidence(48, workloads=[workload(hours(48, used=0.1), gpu_model=name)])
        assert not [one for one in recommend(use, Settings()) if one.rule in slices]


def test_a_workload_of_unknown_memory_gets_no_slice() -> None:
    assert recommend(evidence(48, workloads=[workload(hours(48, used=0.1, memory_gib=0))]), Settings()) == []


def test_a_pod_of_several_gpus_gets_no_slices() -> None:
    found = workload(hours(48, used=0.1, gpus=4), gpus_a_pod=4)
    assert recommend(evidence(48, workloads=[found]), Settings()) == []


def test_work_in_few_hours_shares_by_time_and_steady_work_by_mps() -> None:
    def rule(used: object) -> str:
        found = workload(hours(48, used=used, memory_gib=5), gpu_model="Tesla T4")  # type: ignore[arg-type]
        return only(evidence(48, workloads=[found]), Settings(active_percent=0.01)).rule

    assert rule(lambda number: 0.3 if number % 4 == 3 else 0.0) == "time_slicing"
    assert rule(0.3) == "mps"


def test_a_node_says_who_kept_it_or_whose_work_it_outlived() -> None:
    after = only(evidence(8, nodes=[node([1] * 4 + [0] * 4, last_workload="ml/Job/a", last_team="vision")]))
    assert (after.rule, after.team) == ("node_after_work", "vision")
    assert "ml/Job/a" in after.finding
    assert after.evidence.start_s == MONDAY_S + 4 * HOUR_S
    kept = only(evidence(8, nodes=[node([0] * 8, kept=frozenset({MONDAY_S}))]))
    assert kept.rule == "node_kept_by_cpu_pods"
    assert "spec.nodeName=n7" in kept.change
    assert recommend(evidence(8, nodes=[node([0] * 7 + [1])]), Settings()) == []
    assert recommend(evidence(8, nodes=[node([1] * 7 + [0])]), Settings()) == []


def test_spot_without_a_known_price_promises_no_number() -> None:
    unknown = only(a_job(48))
    assert unknown.saving == Saving(None, None, None, 0.0)
    assert "not known" in unknown.risk
    assumed = only(a_job(48), Settings(spot_price_ratio=0.4))
    assert money(assumed.saving.nano) == documented("spot")
    assert "assumed" in assumed.risk


def test_a_promise_for_spot_is_that_of_work_that_comes_and_goes() -> None:
    """Of five pods in two days, one at a time: 0.96 to 11.74 in the next two."""
    found = only(replace(a_job(48), spot_ratio={"NVIDIA H100 80GB HBM3": 0.4})).saving
    bounds = [(bound or 0) / (found.nano or 1) for bound in (found.low_nano, found.high_nano)]
    assert bounds == pytest.approx([0.96 / 5, 11.74 / 5], abs=0.01)


def test_spot_is_for_what_is_short_or_checkpoints() -> None:
    def rules(found: Evidence, **settings: object) -> list[str]:
        given = Settings.model_validate({"kind": "recommendations", "spot_price_ratio": 0.4} | settings)
        return [one.rule for one in recommend(found, given)]

    assert rules(a_job(48)) == ["spot"]
    assert rules(a_job(48, life_s=30 * HOUR_S)) == []
    assert rules(a_job(48, life_s=30 * HOUR_S), checkpointing=["serving/Job/*"]) == ["spot"]
    assert rules(a_job(48, capacity_type="spot")) == []
    assert rules(a_job(48, workload="Deployment/render")) == []
    assert rules(replace(a_job(48), spot_ratio={"NVIDIA H100 80GB HBM3": 1.1})) == []


def test_a_schedule_is_in_the_teams_own_time() -> None:
    """From 16 to 5 o'clock in Tokyo somebody else works."""
    found = examples()["schedule"]
    assert recommend(found, Settings(time_zone="Asia/Tokyo", work_hours=(7, 12))) == []
    trigger = only(found).manifests["ranker-schedule.yaml"]
    assert "0 7 * * 1-5" in trigger


@pytest.mark.parametrize(
    ("gpus", "gpus_a_pod", "pods"),
    [(3, 1, 3), (6, 2, 3), (1, 1, 1), (3.3, 1, 3)],
    ids=["of one GPU", "of two GPUs", "alone", "replaced by a new version within the hour"],
)
def test_a_schedule_keeps_as_many_pods_as_there_are_in_working_hours(
    gpus: float, gpus_a_pod: int, pods: int
) -> None:
    """However many others came and went in the week."""
    found = workload(
        hours(WEEK, used=of_working_hours, memory_gib=75, gpus=gpus), gpus_a_pod=gpus_a_pod, pods=9
    )
    one = only(evidence(WEEK, workloads=[found]))
    (trigger,) = yaml.safe_load(one.manifests["ranker-schedule.yaml"])["spec"]["triggers"]
    assert trigger["metadata"]["desiredReplicas"] == str(pods)
    assert one.change.startswith(f"run {pods} pod")


def test_a_schedule_of_pods_that_share_gpus_has_no_manifest_as_nobody_knows_how_many_they_are() -> None:
    used = hours(WEEK, used=of_working_hours, memory_gib=75)
    shared = {"sharing": "time_slicing"}, {"mig_profile": "7g.80gb"}
    for several in ([shared[0]], [shared[1]], [{}, shared[0]], [shared[1], {}]):
        one = only(evidence(WEEK, workloads=[workload(used, **more) for more in several]))
        assert (one.rule, one.manifests) == ("schedule", {})
        assert "as many pods as now" in one.change


def test_of_several_changes_to_one_workload_the_best_is_chosen_and_names_the_others() -> None:
    one = only(evidence(48, workloads=[workload(hours(48, used=0.02, memory_gib=5))]))
    assert (one.rule, one.instead_of) == ("idle", ("mig_slice",))


def test_time_without_a_price_is_recommended_in_gpu_hours() -> None:
    one = only(evidence(48, workloads=[workload(hours(48, priced=False), currency="")]))
    assert (one.saving.nano, round(one.saving.gpu_hours)) == (None, 730)


def test_every_rule_has_a_change_that_the_simulator_carries_out() -> None:
    """So that `python -m benchmarks.savings` holds each promise against what is realised."""
    documented_rules = {
        name
        for line in DOCUMENT.partition("## The rules")[2].partition("## The saving")[0].splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])
    }
    assert documented_rules == set(CHANGES)
