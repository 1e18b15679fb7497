"""What is recommended where exactly one thing is."""

from __future__ import annotations

from gpuledger.recommend import (
    Evidence,
    Recommendation,
    Settings,
    recommend,
)


def only(found: Evidence, settings: Settings | None = None) -> Recommendation:
    (one,) = recommend(found, settings or Settings())
    return one
