"""Benchmarks: each prints its figure and writes it to build/figures/NAME.json.

Run one from the repository root: ``python -m benchmarks.codec``.
"""
