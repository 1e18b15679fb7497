"""The pure core: from a node's records of a window to its charges. No I/O, no clock, no logging.

``charge_windows(windows, prices, teams)`` charges many node-windows in one vectorised pass, and
``charge_window`` one. The rules are those of the project's charging page; formula.py has the one formula.
"""

from gpuledger.attribution.charges import ChargeRow, Charges
from gpuledger.attribution.core import charge_window, charge_windows
from gpuledger.attribution.frames import Frames
from gpuledger.attribution.meaning import check_layout, check_record
from gpuledger.attribution.policy import Policy
from gpuledger.attribution.window import NodeWindow, WindowState

__all__ = [
    "ChargeRow",
    "Charges",
    "Frames",
    "NodeWindow",
    "Policy",
    "WindowState",
    "charge_window",
    "charge_windows",
    "check_layout",
    "check_record",
]
