"""What to do about idle GPUs: rules over the ledger, each with its saving, its risk and its manifest.

The rules are pure: ``recommend(evidence, settings)`` over what ``gather`` read from the warehouse.
"""

from gpuledger.recommend.advice import Recommendation
from gpuledger.recommend.evidence import Evidence, Hour, NodeUse, Stranded, WorkloadUse
from gpuledger.recommend.gather import gather
from gpuledger.recommend.rules import recommend
from gpuledger.recommend.saving import MONTH_S, Saving
from gpuledger.recommend.settings import Limits, Settings, read_settings

__all__ = [
    "MONTH_S",
    "Evidence",
    "Hour",
    "Limits",
    "NodeUse",
    "Recommendation",
    "Saving",
    "Settings",
    "Stranded",
    "WorkloadUse",
    "gather",
    "read_settings",
    "recommend",
]
