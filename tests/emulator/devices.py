"""What an emulated device is like."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field

GIB = 1 << 30
QUANTUM_NS = 2_000_000  # said to be the default of NVIDIA's driver; not checked on silicon
CONTEXT_BYTES = 300 << 20  # what a CUDA context costs on recent boards, about
MODES = ("exclusive", "time_sliced", "mps")


def device_uuid(seed: int, index: int, prefix: str = "GPU") -> str:
    """The UUID of device `index`, as NVML writes it; the same for the same seed on every machine."""
    digest = hashlib.sha256(f"gpu {seed} {index}".encode()).digest()
    return f"{prefix}-{uuid.UUID(bytes=digest[:16], version=4)}"


@dataclass(frozen=True)
class DeviceSpec:
    """One device: by default an H100 SXM shared in time slices.

    `mode` is "time_sliced" (any number of processes, round robin) or "exclusive" (compute mode
    EXCLUSIVE_PROCESS: a second process gets CUDA_ERROR_DEVICE_UNAVAILABLE) or "mps" (all at once, each on at
    most its CUDA_MPS_ACTIVE_THREAD_PERCENTAGE of the SMs). `switch_ns` of busy time that
    belongs to no process passes at each change of process. `gpm` says whether the profiling counters of
    NVML (nvmlGpm*) exist; boards before Hopper have none. With `mig_parent` (the index of a device before it)
    it is a MIG instance: a device of its own for CUDA, and for NVML an instance of that GPU, which lies on
    `placement`, (first slot, slots) of it; without that NVML may not say where. `minor` is the number of its
    node, /dev/nvidiaN: its index where it is not given.
    """

    name: str = "NVIDIA H100 80GB HBM3"
    sms: int = 132
    memory_bytes: int = 80 * GIB
    mode: str = "time_sliced"
    quantum_ns: int = QUANTUM_NS
    switch_ns: int = 0
    context_bytes: int = CONTEXT_BYTES
    compute_capability: tuple[int, int] = (9, 0)
    gpm: bool = True
    idle_power_mw: int = 70_000
    max_power_mw: int = 700_000
    uuid: str = field(default="")  # "" : from the emulator's seed and the device's index
    mig_parent: int | None = None
    gpu_instance: int = 0
    compute_instance: int = 0
    slices: int = 0
    profile: str = ""
    placement: tuple[int, int] | None = None
    minor: int | None = None

    def __post_init__(self) -> None:
        """Refuse what gpud would refuse, before anything is started."""
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r} is not one of {MODES}")
        if any(c in self.name for c in ";=") or not 0 < len(self.name) < 64:
            raise ValueError(f"device name {self.name!r} is empty, too long, or has ';' or '='")

    def as_argument(self, uuid_text: str) -> str:
        """The specification as gpud's --device takes it."""
        major, minor = self.compute_capability
        fields = {
            "uuid": uuid_text[4:].replace("-", ""),
            "name": self.name,
            "sms": self.sms,
            "memory_bytes": self.memory_bytes,
            "mode": self.mode,
            "quantum_ns": self.quantum_ns,
            "switch_ns": self.switch_ns,
            "context_bytes": self.context_bytes,
            "compute_major": major,
            "compute_minor": minor,
            "gpm": int(self.gpm),
            "idle_power_mw": self.idle_power_mw,
            "max_power_mw": self.max_power_mw,
        }
        if self.minor is not None:
            fields["minor"] = self.minor
        if self.mig_parent is not None:
            fields["mig_parent"] = self.mig_parent
            fields["gpu_instance"] = self.gpu_instance
            fields["compute_instance"] = self.compute_instance
            fields["slices"] = self.slices
            fields["profile"] = self.profile
            if self.placement is not None:
                fields["placement_start"], fields["placement_size"] = self.placement
        return ";".join(f"{key}={value}" for key, value in fields.items())


def mig_slice(parent: int, gpu_instance: int, slices: int = 1, start: int | None = None) -> DeviceSpec:
    """A MIG instance of an H100 at index `parent`: by default the smallest, one of seven slices. ``start``:
    the first of the GPU's eight slots that it lies on."""
    memory_gib = {1: 10, 2: 20, 3: 40, 4: 40, 7: 80}[slices]
    return DeviceSpec(
        sms={1: 16, 2: 32, 3: 60, 4: 64, 7: 132}[slices],
        memory_bytes=memory_gib * GIB,
        mig_parent=parent,
        gpu_instance=gpu_instance,
        slices=slices,
        profile=f"{slices}g.{memory_gib}gb",
        placement=None if start is None else (start, {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}[slices]),
    )


H100 = DeviceSpec()
A100 = DeviceSpec(
    name="NVIDIA A100-SXM4-80GB",
    sms=108,
    compute_capability=(8, 0),
    gpm=False,
    idle_power_mw=55_000,
    max_power_mw=400_000,
)
L4 = DeviceSpec(
    name="NVIDIA L4",
    sms=58,
    memory_bytes=24 * GIB,
    compute_capability=(8, 9),
    gpm=False,
    idle_power_mw=16_000,
    max_power_mw=72_000,
)
T4 = DeviceSpec(
    name="Tesla T4",
    sms=40,
    memory_bytes=16 * GIB,
    compute_capability=(7, 5),
    gpm=False,
    idle_power_mw=10_000,
    max_power_mw=70_000,
)
