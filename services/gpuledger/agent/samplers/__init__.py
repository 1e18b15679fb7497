"""Measurements of the silicon: who takes them, and the values that they are."""

from gpuledger.agent.samplers.samples import Gap, Round, Sample, Sampler

__all__ = ["Gap", "Round", "Sample", "Sampler"]
