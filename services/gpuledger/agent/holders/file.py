"""Holders from a YAML or JSON file, or from all such files of a directory, read again whenever they change.

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
consumers:                       # who is no pod: a job, a unit, a container
  - kind: slurm_job
    id: "42"                     # as its cgroup says it
    namespace: physics           # its account
    name: train
    labels: {user: alice}
    devices: [{id: nvidia0, resource: gres/gpu}]
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuledger.agent.devices import parse_device_id
from gpuledger.agent.holders.source import DeviceSharing, HeldDevice, Holders
from gpuledger.contract.errors import ConfigError
from gpuledger.contract.records import Pod

MAX_FILE_BYTES = 16 << 20  # some hundred pods a node; a file far beyond is not one of holders
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
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


class _Consumer(BaseModel):
    model_config = _STRICT
    kind: Literal["slurm_job", "systemd", "container"]
    id: Annotated[str, Field(min_length=1, max_length=253)]
    namespace: _Text = ""
    name: _Text = ""
    labels: dict[_Text, _Text] = {}
    devices: list[_HeldDevice] = []


class _Device(BaseModel):
    model_config = _STRICT
    device: _Text
    sharing: _Text = "exclusive"
    replicas: Annotated[int, Field(ge=1)] = 1


class _Document(BaseModel):
    model_config = _STRICT
    pods: list[_Pod] = []
    consumers: list[_Consumer] = []
    devices: list[_Device] = []


_Seen: TypeAlias = tuple[int, int, int]


class FileHolders:
    """A `HolderSource` over one file, or over the files of a directory that end in .yaml or .json.

    A file that is missing or broken leaves the last good answer. In a directory a file that goes takes its
    holders along, and one that is broken leaves its own last good answer.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[Path, tuple[_Seen, Holders | None, str]] = {}
        self._holders: Holders | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """See HolderSource.problem."""
        return self._problem

    def read(self) -> Holders | None:
        """See HolderSource.read."""
        try:
            paths = self._paths()
            changed = [path for path in paths if self._look(path)] or set(self._files) != set(paths)
            changed = changed or self._holders is None
            self._files = {path: self._files[path] for path in paths}
            self._problem = "; ".join(problem for _, _, problem in self._files.values() if problem)
            good = [holders for _, holders, _ in self._files.values() if holders is not None]
            # a directory in which no file is readable says nothing, unless it is empty: then nobody holds
            if changed and (good or (self._path.is_dir() and (self._holders or not self._problem))):
                self._holders = _together(good)
        except OSError as error:
            self._problem = f"{error.filename}: {error.strerror}"
        return self._holders

    def _paths(self) -> list[Path]:
        """Raises OSError where there is nothing at the path."""
        if not self._path.is_dir():
            self._path.stat()
            return [self._path]
        names = (path for path in self._path.iterdir() if not path.name.startswith("."))
        return sorted(path for path in names if path.suffix in SUFFIXES)

    def _look(self, path: Path) -> bool:
        """Read a file if it changed; whether it did. Raises OSError where it can not be read."""
        stat = path.stat()
        seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        before = self._files.get(path)
        if before is not None and before[0] == seen:
            return False
        try:
            self._files[path] = seen, parse_holders(_text(path), str(path)), ""
        except ConfigError as error:
            self._files[path] = seen, before[1] if before else None, str(error)
        return True


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"is over {MAX_FILE_BYTES} bytes", str(path))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8", str(path)) from error


def _together(parts: list[Holders]) -> Holders:
    """All that several files say; of a pod that two describe the first holds."""
    if len(parts) == 1:
        return parts[0]
    pods = {pod.uid: pod for part in reversed(parts) for pod in part.pods}
    return Holders(
        tuple(pods[uid] for uid in sorted(pods)),
        tuple(held for part in parts for held in part.held),
        tuple(sharing for part in parts for sharing in part.sharing),
        {id_: name for part in parts for id_, name in part.container_names.items()},
    )


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
    for consumer in document.consumers:
        pods.append(Pod(consumer.id, consumer.namespace, consumer.name, labels=consumer.labels))
        held += [
            replace(_held(consumer.id, "", device), consumer_kind=consumer.kind)
            for device in consumer.devices
        ]
    _refuse_repeats([pod.uid for pod in pods], where)
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
