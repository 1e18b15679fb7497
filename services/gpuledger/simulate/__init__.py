"""A fleet with a known truth: what its agents would send, and what each process really did.

Everything follows from a seed: the plan of a node from (seed, node), the activity of a window from (seed,
node, window). No window needs another: any part of a fleet can be made again, in any order.
"""

from gpuledger.simulate.activity import Activity, activity
from gpuledger.simulate.plan import NodePlan, plan_node
from gpuledger.simulate.spec import FleetSpec
from gpuledger.simulate.truth import TruthRow, truth

__all__ = ["Activity", "FleetSpec", "NodePlan", "TruthRow", "activity", "plan_node", "truth"]
