"""Offsets of fields in the running kernel's structures, from its own type information.

Format: https://docs.kernel.org/bpf/btf.html (header, types, strings). Only what is needed to find a field of
a struct is read.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

VMLINUX: Final = Path("/sys/kernel/btf/vmlinux")

_MAGIC: Final = 0xEB9F
_KIND_STRUCT: Final = 4
_TYPE_BYTES: Final = 12
_EXTRA_BYTES: Final = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0)} | {
    15: (0, 12),
    17: (4, 0),
    19: (0, 12),
}
"""kind -> (bytes that follow each type, bytes that follow each of its vlen entries); others have none.
1 int, 3 array, 4 struct, 5 union, 6 enum, 13 function prototype, 14 variable, 15 data section, 17 declaration
tag, 19 enum64."""

_WANTED: Final = {
    ("task_struct", "group_leader"): "TASK_GROUP_LEADER",
    ("task_struct", "start_boottime"): "TASK_START_BOOTTIME",
    ("task_struct", "signal"): "TASK_SIGNAL",
    ("signal_struct", "live"): "SIGNAL_LIVE",
    ("cgroup", "root"): "CGROUP_ROOT",
    ("cgroup", "kn"): "CGROUP_NODE",
    ("cgroup_root", "hierarchy_id"): "CGROUP_HIERARCHY",
    ("kernfs_node", "id"): "KERNFS_ID",
}


def field_offsets(data: bytes, wanted: dict[str, set[str]]) -> dict[tuple[str, str], int]:
    """(struct, field) -> byte offset, for every wanted field found in the BTF blob ``data``.

    Bit fields are left out. Raises ValueError where ``data`` is no BTF of this machine's byte order.
    """
    if len(data) < 24:
        raise ValueError("BTF is shorter than its header")
    header = struct.unpack_from("=HBBIIIII", data)
    magic, _, _, header_bytes, type_at, type_bytes, string_at, string_bytes = header
    if magic != _MAGIC:
        raise ValueError(f"BTF magic is {magic:#x}, not {_MAGIC:#x}")
    strings = data[header_bytes + string_at : header_bytes + string_at + string_bytes]
    names = {_string_offset(strings, name): name for name in wanted}
    found: dict[tuple[str, str], int] = {}
    at = header_bytes + type_at
    end = at + type_bytes
    read = struct.Struct("=III").unpack_from
    while at < end:
        name_at, info, _ = read(data, at)
        kind, entries = info >> 24 & 0x1F, info & 0xFFFF
        fixed, each = _EXTRA_BYTES.get(kind, (0, 0))
        if kind == _KIND_STRUCT and name_at in names:
            owner = names[name_at]
            for index in range(entries):
                field_at, _, offset = read(data, at + _TYPE_BYTES + index * 12)
                field = strings[field_at : strings.index(b"\0", field_at)].decode()
                bits = offset & 0xFFFFFF if info >> 31 else offset
                if field in wanted[owner] and bits % 8 == 0:
                    found[owner, field] = bits // 8
        at += _TYPE_BYTES + fixed + each * entries
    return found


def _string_offset(strings: bytes, name: str) -> int:
    return strings.find(b"\0" + name.encode() + b"\0") + 1 or -1


def kernel_offsets(path: Path = VMLINUX) -> dict[str, int]:
    """Macro name -> offset, for `symbols.c_preamble`; empty where the kernel has no readable BTF."""
    wanted: dict[str, set[str]] = {}
    for owner, field in _WANTED:
        wanted.setdefault(owner, set()).add(field)
    try:
        found = field_offsets(path.read_bytes(), wanted)
    except (OSError, ValueError):
        return {}
    return {_WANTED[key]: offset for key, offset in found.items()}
