"""Which integration tests may run at the same time.

Probes see every process that uses the library they are attached to, so tests with an agent or an emulated
GPU must not run beside each other. With ``--dist loadgroup`` they share one worker; every other file is a
group of its own.
"""

import pytest

ALONE = ("test_agent", "test_emulator", "test_dcgm_agent")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a test into the group of its file, and those with a GPU into one."""
    group = "gpu" if item.path.name.startswith(ALONE) else item.path.stem
    item.add_marker(pytest.mark.xdist_group(group))
