"""Why a kind of evidence is more than 5 points from the truth in a mix: a reason for each, by its cause."""

from __future__ import annotations

UNSEEN = (
    "Nothing in its calls says when its work ended: it counts as outstanding all the time, and by"
    " processor sharing it has half of the time in which its neighbour works. The interval reaches"
    " from nothing to that"
)
TWO_BOUNDS = (
    "What the device shows while it is alone, and what its neighbour's fastest bursts leave of the"
    " device, are some points apart. The mean of the two is taken; the interval has both"
)
LAST_SECOND = (
    "NVML lists a process once a second, while it lives: of its last second there is no value. In a"
    " recording's last window all processes end, and a ninth of their work is in no value. Where what"
    " is measured is then more than 10 points below the device's total, it is not believed: the total"
    " is divided equally, and the error is how unequal the mix is. Where it is less, the values stand"
    " without that second, up to 10 points too low"
)
DIES = (
    "NVML lists a process once a second, while it lives: of the one that is killed there is no value"
    " of its last second, and of the other, which ends with the window, none of that. Together more"
    " than 10 points are missing beside the device's total, which is divided equally then, though one"
    " was there for half of the window"
)
LONG_BURSTS = (
    "A value speaks for a sixth of each second, and NVML lists only who was busy in it. Bursts of"
    " seconds with pauses of half a second are hit or missed: one of ten values more or less is 10 %"
    " of the window, for each of two sharers 5 points"
)
NO_VALUE_OF_INSTANCES = (
    "NVML has no utilisation of a process on an instance (NOT_SUPPORTED). What an instance shows is"
    " divided equally among its processes; whoever is alone there has it right"
)
NO_SHARE_OF_SMS = (
    "Under MPS a client's utilisation is the part of the time in which it ran, not its part of the"
    " SMs, and is not used. What the device shows is divided equally among three that asked for"
    " different parts"
)
BELIEVED_WITHOUT_THE_LAST_SECOND = (
    "The ends of some work are not seen, so NVML's values stand where they agree with the device's"
    " total to 10 points. In a recording's last window they lack the last second, which no value"
    " speaks for: up to a tenth of the window for who works all the time. The interval reaches to the"
    " estimate by the calls"
)
BELIEVED_BESIDE_THE_CALLS = (
    "Bursts of microseconds cost as much in launching as in running, which leaves the estimate by the"
    " calls in doubt. So NVML's values stand where they agree with the device's total to 10 points,"
    " and in a recording's last window they lack the last second, which no value speaks for. The"
    " interval reaches to the estimate"
)

REASONS: dict[tuple[str, str], str] = {
    **{
        ("busy_estimated", mix): UNSEEN
        for mix in (
            "tiny, never synchronising + trainer",
            "late synchronise + trainer",
            "never synchronises, 10 % duty + trainer",
        )
    },
    ("busy_estimated + device", "never synchronises, 10 % duty + trainer"): TWO_BOUNDS,
    **{
        ("process_measured", mix): LAST_SECOND
        for mix in (
            "two trainers, equal",
            "two trainers, unequal",
            "three trainers, unequal",
            "four sharers",
            "asynchronous hog + trainer",
            "bursty inference + trainer",
            "polls events and streams + trainer",
            "trainer + inference + tiny + idle",
            "graphs + several streams",
            "off the books beside a holder",
            "tiny synchronous + long kernels",
            "tiny, never synchronising + trainer",
            "late synchronise + trainer",
            "never synchronises, 10 % duty + trainer",
        )
    },
    ("process_measured", "one dies in the middle"): DIES,
    ("process_measured", "work across window borders"): LONG_BURSTS,
    ("process_measured", "two MIG instances"): NO_VALUE_OF_INSTANCES,
    ("process_measured", "MPS 30/70 + light inference"): NO_SHARE_OF_SMS,
    **{
        ("all", mix): BELIEVED_WITHOUT_THE_LAST_SECOND
        for mix in (
            "tiny, never synchronising + trainer",
            "never synchronises, 10 % duty + trainer",
            "late synchronise + trainer",
            "polls events and streams + trainer",
        )
    },
    ("all", "tiny synchronous + long kernels"): BELIEVED_BESIDE_THE_CALLS,
    ("all", "trainer + inference + tiny + idle"): BELIEVED_BESIDE_THE_CALLS,
}
"""By evidence and mix."""

EQUAL_PARTS = frozenset({DIES, NO_VALUE_OF_INSTANCES, NO_SHARE_OF_SMS})
"""Reasons by which equal parts are left: the error can not be above theirs."""

WITHOUT_A_SECOND = frozenset({LAST_SECOND, BELIEVED_WITHOUT_THE_LAST_SECOND, BELIEVED_BESIDE_THE_CALLS})
"""Reasons by which a second of a window is lacking, or equal parts are left: the error can not be above the
greater of both."""
