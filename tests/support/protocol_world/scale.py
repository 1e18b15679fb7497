"""The world's units."""

from gpuledger.contract.identity import NodeKey
from gpuledger.contract.windows import NS_PER_S, WindowGrid
from gpuledger.processor.protocol import Rules

WINDOW = 3  # ticks
WINDOWS = 6  # that an agent lives through
HORIZON = WINDOWS + 8  # windows that may ever be charged
EARLIEST = -24  # the first window that may ever be charged
SILENCE = 3  # ticks
AHEAD = 3  # ticks
UNSTATED_LIFE = 3  # windows
WINDOW_NS = WINDOW * NS_PER_S
HOUR_NS = 3 * WINDOW_NS  # one row of gpu.progress

GRID = WindowGrid(WINDOW_NS)
RULES = Rules(
    silence_ns=SILENCE * NS_PER_S,
    ahead_ns=AHEAD * NS_PER_S,
    oldest_ns=1000 * NS_PER_S,
    unstated_life_ns=UNSTATED_LIFE * WINDOW_NS,
    longest_window_ns=WINDOW_NS,
    given_up_ns=HOUR_NS,
)
NODES = (NodeKey("c", "stated"), NodeKey("c", "unstated"))


def ns(ticks: int) -> int:
    """Ticks as ns."""
    return ticks * NS_PER_S
