"""A GPU at the C ABI: stub libcuda and libnvidia-ml over one device model, its workloads and its truth.

See README.md for what is modelled and what is not.
"""

from tests.emulator.calls import Calls, counted_calls
from tests.emulator.cgroups import make_pod_cgroup, pod_cgroup_path, remove_pod_cgroup
from tests.emulator.control import BUILD, LIBCUDA, Emulator, EmulatorError, build, finish
from tests.emulator.devices import A100, H100, L4, T4, DeviceSpec, device_uuid, mig_slice
from tests.emulator.truth import AT_WORK_NS, Stay, Truth, TruthError

__all__ = [
    "A100",
    "AT_WORK_NS",
    "BUILD",
    "H100",
    "L4",
    "LIBCUDA",
    "T4",
    "Calls",
    "DeviceSpec",
    "Emulator",
    "EmulatorError",
    "Stay",
    "Truth",
    "TruthError",
    "build",
    "counted_calls",
    "device_uuid",
    "finish",
    "make_pod_cgroup",
    "mig_slice",
    "pod_cgroup_path",
    "remove_pod_cgroup",
]
