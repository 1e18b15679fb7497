"""Device ids as the kubelet hands them out, in every form that device plugins and DRA drivers write.

Forms: kubernetes/kubelet podresources v1; NVIDIA k8s-device-plugin (annotated ids, MIG before and after
R470), GKE's plugin, the gpu.nvidia.com DRA driver, HAMi and the Aliyun GPU-share plugin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NUMBER = "[0-9]{1,4}"  # no node has more devices, and no GPU more instances
_SLOT = "[0-9]{1,6}"  # Aliyun's plugin makes one of each MiB
_REPLICA = rf"(?:(?:::|-_-|-)(?P<replica>{_SLOT}))?"  # NVIDIA '::n', Aliyun '-_-n', HAMi '-n'
_FORMS = tuple(
    re.compile(form)
    for form in (
        # before R470 a MIG device named its GPU, GPU instance and compute instance
        rf"MIG-(?P<uuid>GPU-{_UUID})/(?P<gpu_instance>{_NUMBER})/(?P<compute_instance>{_NUMBER}){_REPLICA}",
        rf"(?P<uuid>(?:GPU|MIG)-{_UUID}){_REPLICA}",
        rf"nvidia(?P<index>{_NUMBER})(?:/gi(?P<gpu_instance>{_NUMBER}))?(?:/vgpu(?P<replica>{_SLOT}))?",
        rf"gpu-(?P<index>{_NUMBER})(?:-mig-[\w-]+-\d+-\d+)?",
    )
)


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """What a device id says; None where it does not say.

    ``uuid`` is NVML's (GPU-... or MIG-...); beside ``gpu_instance`` and ``compute_instance`` it is that of
    the GPU which the instance lies on. ``index`` is the number of the device's node, /dev/nvidiaN, which need
    not be its place in NVML's order: GKE's plugin names nodes, and NVIDIA's DRA driver numbers its devices by
    them (its CanonicalName is gpu-<minor>). ``replica`` is the slot of a shared device.
    """

    uuid: str | None = None
    index: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    replica: int | None = None


def parse_device_id(resource_name: str, device_id: str) -> DeviceRef:
    """What ``device_id`` (of the resource ``resource_name``) says of the device.

    The form of the id decides, whatever the resource is called: sharing keeps or renames resources as the
    administrator likes. An id in no known form says nothing.
    """
    for form in _FORMS:
        match = form.fullmatch(device_id)
        if match:
            found = match.groupdict()
            numbers = {
                name: int(found[name])
                for name in ("index", "gpu_instance", "compute_instance", "replica")
                if found.get(name) is not None
            }
            return DeviceRef(uuid=found.get("uuid"), **numbers)
    return DeviceRef()
