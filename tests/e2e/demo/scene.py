"""What the demo's node is: three GPUs, five pods' worth of work, two teams, and one guest nobody booked."""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.emulator import DeviceSpec, Emulator
from tests.emulator.cgroups import make_pod_cgroup, remove_pod_cgroup

CLUSTER = "demo"
NODE = "gpu-node-1"
GPU_MODEL = "NVIDIA H100 80GB HBM3"
MEMORY_BYTES = 80 << 30
EXCLUSIVE, SHARED, FREE = 0, 1, 2  # indices of the three devices
SLOTS = 3


@dataclass
class Work:
    """One process of the scene, in a pod of a team or on the bare host."""

    title: str
    device: int
    workload: list[str]
    team: str = ""  # empty: a process on the host that nobody booked
    namespace: str = ""
    pod: str = ""
    slots: int = 0
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    container_id: str = field(default_factory=lambda: uuid.uuid4().hex * 2)
    cgroup: Path | None = None
    process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Its process id, once started."""
        assert self.process is not None
        return self.process.pid


def works() -> list[Work]:
    """The five processes. Bursts and gaps make the exclusive one busy about 70 % of the time."""
    return [
        Work(
            "training, alone on its GPU",
            EXCLUSIVE,
            ["train", "--burst", "20", "--duration-us", "1750", "--gap-us", "15000", "--memory", "40G"],
            "vision",
            "research",
            "resnet-train-0",
            1,
        ),
        Work(
            "training, one slot of three",
            SHARED,
            ["train", "--burst", "20", "--duration-us", "1000", "--gap-us", "5000", "--memory", "20G"],
            "vision",
            "research",
            "finetune-0",
            1,
        ),
        Work(
            "inference in bursts, one slot of three",
            SHARED,
            [
                "infer",
                "--rate",
                "20",
                "--burst",
                "4",
                "--duration-us",
                "1500",
                "--memory",
                "10G",
                "--sms",
                "40",
            ],
            "search",
            "serving",
            "ranker-7d9f",
            1,
        ),
        Work(
            "a model kept warm, one slot of three",
            SHARED,
            ["idle", "--memory", "15G"],
            "search",
            "serving",
            "embedder-5c4b",
            1,
        ),
        Work(
            "a process on the host that nobody booked",
            FREE,
            [
                "train",
                "--burst",
                "5",
                "--duration-us",
                "1000",
                "--gap-us",
                "20000",
                "--memory",
                "2G",
                "--sms",
                "66",
            ],
        ),
    ]


def devices() -> list[DeviceSpec]:
    """Three boards of one model."""
    return [DeviceSpec(name=GPU_MODEL, memory_bytes=MEMORY_BYTES) for _ in range(3)]


def write_holders(path: Path, scene: list[Work], uuids: list[str]) -> None:
    """The holders file, as a cluster would state them: who was given which device, and how it is shared."""
    document = {
        "devices": [
            {"device": uuids[EXCLUSIVE], "sharing": "exclusive"},
            {"device": uuids[SHARED], "sharing": "time_slicing", "replicas": SLOTS},
            {"device": uuids[FREE], "sharing": "exclusive"},
        ],
        "pods": [
            {
                "uid": work.uid,
                "namespace": work.namespace,
                "name": work.pod,
                "labels": {"team": work.team},
                "phase": "Running",
                "containers": [
                    {
                        "name": "main",
                        "id": work.container_id,
                        "devices": [
                            {
                                "id": uuids[work.device] + (f"::{index}" if work.device == SHARED else ""),
                                "resource": "nvidia.com/gpu.shared"
                                if work.device == SHARED
                                else "nvidia.com/gpu",
                                "slots": work.slots,
                            }
                        ],
                    }
                ],
            }
            for index, work in enumerate(scene)
            if work.team
        ],
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def make_cgroups(scene: list[Work]) -> None:
    """A pod-shaped cgroup for each pod, as kubelet and containerd make them. Needs root."""
    for work in scene:
        if work.team:
            work.cgroup = make_pod_cgroup(work.uid, work.container_id)


def start(scene: list[Work], emulator: Emulator) -> None:
    """Start every process in its cgroup, on its device."""
    for seed, work in enumerate(scene, start=1):
        work.process = emulator.spawn(
            [*work.workload, "--seed", str(seed)],
            cgroup=work.cgroup,
            visible_devices=emulator.uuids[work.device],
        )


def remove_cgroups(scene: list[Work]) -> None:
    """Remove what `make_cgroups` made; the processes must have ended."""
    for work in scene:
        if work.cgroup is not None:
            remove_pod_cgroup(work.cgroup)
            work.cgroup = None
