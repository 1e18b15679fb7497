"""Every form of device id that kubelets list (kubernetes podresources v1, device plugins, DRA drivers)."""

import pytest

from gpuledger.agent.devices import DeviceRef, parse_device_id

UUID = "6f2a1b3c-4d5e-6f70-8192-a3b4c5d6e7f8"


@pytest.mark.parametrize(
    ("resource", "device_id", "expected"),
    [
        ("nvidia.com/gpu", f"GPU-{UUID}", DeviceRef(uuid=f"GPU-{UUID}")),
        ("nvidia.com/gpu.shared", f"GPU-{UUID}::3", DeviceRef(uuid=f"GPU-{UUID}", replica=3)),
        ("nvidia.com/gpu", f"GPU-{UUID}::0", DeviceRef(uuid=f"GPU-{UUID}", replica=0)),
        ("nvidia.com/mig-1g.10gb", f"MIG-{UUID}", DeviceRef(uuid=f"MIG-{UUID}")),
        ("nvidia.com/mig-1g.10gb", f"MIG-{UUID}::2", DeviceRef(uuid=f"MIG-{UUID}", replica=2)),
        (
            "nvidia.com/gpu",
            f"MIG-GPU-{UUID}/9/0",
            DeviceRef(uuid=f"GPU-{UUID}", gpu_instance=9, compute_instance=0),
        ),
        (
            "nvidia.com/gpu",
            f"MIG-GPU-{UUID}/9/1::4",
            DeviceRef(uuid=f"GPU-{UUID}", gpu_instance=9, compute_instance=1, replica=4),
        ),
        ("nvidia.com/gpu", "nvidia0", DeviceRef(index=0)),
        ("nvidia.com/gpu", "nvidia13/vgpu1", DeviceRef(index=13, replica=1)),
        ("nvidia.com/gpu", "nvidia0/gi3", DeviceRef(index=0, gpu_instance=3)),
        ("nvidia.com/gpu", "nvidia0/gi3/vgpu0", DeviceRef(index=0, gpu_instance=3, replica=0)),
        ("nvidia.com/vgpu", f"GPU-{UUID}-7", DeviceRef(uuid=f"GPU-{UUID}", replica=7)),
        ("aliyun.com/gpu-mem", f"GPU-{UUID}-_-31", DeviceRef(uuid=f"GPU-{UUID}", replica=31)),
        ("gpu.nvidia.com", "gpu-0", DeviceRef(index=0)),
        ("gpu.nvidia.com", "gpu-2-mig-1g12gb-19-0", DeviceRef(index=2)),
    ],
)
def test_a_device_id_says_what_it_says_and_no_more(
    resource: str, device_id: str, expected: DeviceRef
) -> None:
    assert parse_device_id(resource, device_id) == expected


@pytest.mark.parametrize("device_id", ["", "gpu", "GPU-123", "nvidia", "nvidia0/gi", f"GPU-{UUID}::", "a/b"])
def test_an_id_in_no_known_form_says_nothing(device_id: str) -> None:
    assert parse_device_id("example.com/accelerator", device_id) == DeviceRef()
