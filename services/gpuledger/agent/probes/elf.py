"""Where a shared library's exported functions lie in its file.

Read by hand (ELF-64 of the System V ABI), for pyelftools takes 2 MB of each agent for the one table that is
needed here.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from gpuledger.contract.errors import BadRecord

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_CLASS_64_LITTLE: Final = b"\x7fELF\x02\x01"
_SEGMENT: Final = np.dtype(
    {
        "names": ["type", "flags", "offset", "address", "physical", "file_bytes", "memory_bytes", "align"],
        "formats": ["<u4", "<u4", "<u8", "<u8", "<u8", "<u8", "<u8", "<u8"],
    }
)
_SECTION: Final = np.dtype(
    {
        "names": [
            *("name", "type", "flags", "address"),
            *("offset", "size", "link", "info", "align", "each"),
        ],
        "formats": ["<u4", "<u4", "<u8", "<u8", "<u8", "<u8", "<u4", "<u4", "<u8", "<u8"],
    }
)
_SYMBOL: Final = np.dtype(
    {
        "names": ["name", "info", "other", "section", "value", "size"],
        "formats": ["<u4", "u1", "u1", "<u2", "<u8", "<u8"],
    }
)
_PT_LOAD, _SHT_DYNSYM, _STT_FUNC, _SHN_UNDEF = 1, 11, 2, 0
_TYPE_BITS: Final = 0xF  # of a symbol's info
MAX_TABLE_BYTES: Final = 64 << 20  # the driver's have a hundredth of it


def exported_functions(path: str | Path) -> dict[str, int]:
    """Exported function name -> byte offset of its first instruction in the file.

    Reads only the dynamic symbol table, so a stripped library is enough. Raises BadRecord where the file is
    no 64-bit ELF shared object, OSError where it can not be read.
    """
    with Path(path).open("rb") as file:
        try:
            return _read(file)
        except ValueError as error:
            raise BadRecord("not_elf", f"{path}: not a readable ELF file: {error}") from error


def _read(file: BinaryIO) -> dict[str, int]:
    header = _bytes(file, 0, _HEADER.size)
    if not header.startswith(_CLASS_64_LITTLE):
        raise ValueError("it does not begin as a 64-bit little-endian one")
    (*_, segments_at, sections_at, _, _, segment_bytes, segments, section_bytes, sections, _) = (
        _HEADER.unpack(header)
    )
    if segment_bytes != _SEGMENT.itemsize or (sections and section_bytes != _SECTION.itemsize):
        raise ValueError("its tables have entries of another size")
    loads = np.frombuffer(_bytes(file, segments_at, segments * segment_bytes), _SEGMENT)
    loads = loads[loads["type"] == _PT_LOAD]
    table = np.frombuffer(_bytes(file, sections_at, sections * section_bytes), _SECTION)
    for section in table[table["type"] == _SHT_DYNSYM]:
        if section["link"] >= len(table):
            raise ValueError("its symbols have no names")
        names = table[section["link"]]
        symbols = np.frombuffer(_bytes(file, int(section["offset"]), int(section["size"])), _SYMBOL)
        return _functions(symbols, _bytes(file, int(names["offset"]), int(names["size"])), loads)
    return {}


def _functions(
    symbols: np.ndarray[tuple[int], np.dtype[np.void]],
    names: bytes,
    loads: np.ndarray[tuple[int], np.dtype[np.void]],
) -> dict[str, int]:
    is_function = (symbols["info"] & _TYPE_BITS) == _STT_FUNC
    found: dict[str, int] = {}
    for symbol in symbols[is_function & (symbols["section"] != _SHN_UNDEF)]:
        address, at = symbol["value"], int(symbol["name"])
        inside = (loads["address"] <= address) & (address < loads["address"] + loads["file_bytes"])
        for load in loads[inside][:1]:
            name = names[at : names.index(b"\0", at)].decode("utf-8", "replace")
            found[name] = int(address - load["address"] + load["offset"])
    return found


def _bytes(file: BinaryIO, at: int, size: int) -> bytes:
    """That piece of the file. Raises ValueError where it has no such piece."""
    if size > MAX_TABLE_BYTES:
        raise ValueError(f"a table of {size} bytes")
    if at + size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"it ends before byte {at + size}")
    file.seek(at)
    return file.read(size)
