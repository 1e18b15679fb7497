"""Holders from a YAML or JSON file, read again whenever it changes.

devices:
  - device: GPU-6f...            # a uuid, or an id such as nvidia1
    sharing: time_slicing        # exclusive, time_slicing, mps, fractional
    replicas: 4
pods:
  - uid: 0a1b...
    namespace: research
    name: train-0
    labels: {team: vision}
    phase: Running
    owner: {kind: Job, name: train}
    containers:
      - name: main
        id: 4f5e...              # optional: 64 hex digits
        devices:
          - id: GPU-6f...::2     # as the kubelet lists it
            resource: nvidia.com/gpu.shared
            slots: 1
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuledger.agent.devices import parse_device_id
from gpuledger.agent.holders.source import DeviceSharing, HeldDevice, Holders
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Pod

MAX_FILE_BYTES = 16 << 20  # some hundred pods a node; a file far beyond is not one of holders
SHARINGS = ("exclusive", "time_slicing", "mps", "fractional", "none")
_STRICT = ConfigDict(extra="forbid")
_Text = Annotated[str, Field(max_length=4096)]


class _HeldDevice(BaseModel):
    model_config = _STRICT
    id: _Text
    resource: _Text = "nvidia.com/gpu"
    slots: Annotated[int, Field(ge=1)] = 1
    share: Annotated[str, Field(pattern=r"^\d{1,12}/[1-9]\d{0,11}$")] | None = None
    mps_percentage: Annotated[float, Field(gt=0, le=100)] | None = None
    memory_limit_bytes: Annotated[int, Field(ge=0)] | None = None


class _Container(BaseModel):
    model_config = _STRICT
    name: _Text = ""
    id: _Text = ""
    devices: list[_HeldDevice] = []


class _Owner(BaseModel):
    model_config = _STRICT
    kind: _Text
    name: _Text


class _Pod(BaseModel):
    model_config = _STRICT
    uid: Annotated[str, Field(min_length=1, max_length=253)]
    namespace: _Text = ""
    name: _Text = ""
    phase: _Text = "Running"
    labels: dict[_Text, _Text] = {}
    annotations: dict[_Text, _Text] = {}
    owner: _Owner | None = None
    containers: list[_Container] = []


class _Device(BaseModel):
    model_config = _STRICT
    device: _Text
    sharing: _Text = "exclusive"
    replicas: Annotated[int, Field(ge=1)] = 1


class _Document(BaseModel):
    model_config = _STRICT
    pods: list[_Pod] = []
    devices: list[_Device] = []


class FileHolders:
    """A `HolderSource` over one file. A file that is missing or broken leaves the last good answer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._holders: Holders | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """See HolderSource.problem."""
        return self._problem

    def read(self) -> Holders | None:
        """See HolderSource.read."""
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen != self._seen:
                self._holders = parse_holders(self._text(), str(self._path))
                self._problem = ""
                self._seen = seen
        except OSError as error:
            self._seen = None
            self._problem = f"{self._path}: {error.strerror}"
        except ConfigError as error:
            self._seen = seen
            self._problem = str(error)
        return self._holders

    def _text(self) -> str:
        with self._path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"is over {MAX_FILE_BYTES} bytes", str(self._path))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ConfigError("is not UTF-8", str(self._path)) from error


def parse_holders(text: str, where: str) -> Holders:
    """The holders that a document states. Raises ConfigError with the line or field that is wrong."""
    try:
        plain = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else where
        raise ConfigError(f"is no YAML: {getattr(error, 'problem', None) or error}", place) from error
    try:
        document = _Document.model_validate(plain if plain is not None else {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{field}: {first['msg']}", where) from error
    return _holders(document, where)


_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _holders(document: _Document, where: str) -> Holders:
    pods, held, names = [], [], {}
    for pod in document.pods:
        owner = pod.owner or _Owner(kind="", name="")
        pods.append(
            Pod(
                uid=pod.uid,
                namespace=pod.namespace,
                name=pod.name,
                phase=pod.phase,
                labels=pod.labels,
                annotations=pod.annotations,
                workload_kind=owner.kind,
                workload=owner.name,
            )
        )
        for container in pod.containers:
            if container.id:
                names[container.id] = container.name
            held += [_held(pod.uid, container.name, device) for device in container.devices]
    _refuse_repeats([pod.uid for pod in document.pods], where)
    sharing = []
    for device in document.devices:
        if device.sharing not in SHARINGS:
            raise ConfigError(f"sharing {device.sharing!r} is none of {', '.join(SHARINGS)}", where)
        sharing.append(DeviceSharing(parse_device_id("", device.device), device.sharing, device.replicas))
    return Holders(tuple(pods), tuple(held), tuple(sharing), names)


def _held(consumer: str, container: str, device: _HeldDevice) -> HeldDevice:
    numerator, _, denominator = (device.share or "0/0").partition("/")
    return HeldDevice(
        consumer=consumer,
        device=parse_device_id(device.resource, device.id),
        container=container,
        resource_name=device.resource,
        slots=device.slots,
        share_numerator=int(numerator),
        share_denominator=int(denominator),
        mps_percentage=device.mps_percentage,
        memory_limit_bytes=device.memory_limit_bytes,
    )


def _refuse_repeats(uids: list[str], where: str) -> None:
    repeated = {uid for uid in uids if uids.count(uid) > 1}
    if repeated:
        raise ConfigError(f"pods: uid {min(repeated)} is there more than once", where)
