"""Fixtures of all tests."""

pytest_plugins = ["tests.support.kafka", "tests.support.line"]
