"""Where a shared library's exported functions lie in its file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from gpuledger.contract.errors import BadRecord


def exported_functions(path: str | Path) -> dict[str, int]:
    """Exported function name -> byte offset of its first instruction in the file.

    Reads only the dynamic symbol table, so a stripped library is enough. Raises BadRecord where the file is
    no ELF shared object, OSError where it can not be read.
    """
    with Path(path).open("rb") as file:
        try:
            return _read(file)
        except ELFError as error:
            raise BadRecord("not_elf", f"{path}: not a readable ELF file: {error}") from error


def _read(file: BinaryIO) -> dict[str, int]:
    elf = ELFFile(file)
    table = elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return {}
    loads = [segment.header for segment in elf.iter_segments("PT_LOAD")]
    found: dict[str, int] = {}
    for symbol in table.iter_symbols():
        if symbol["st_info"]["type"] != "STT_FUNC" or symbol["st_shndx"] == "SHN_UNDEF":
            continue
        address = symbol["st_value"]
        for load in loads:
            if load.p_vaddr <= address < load.p_vaddr + load.p_filesz:
                found[symbol.name] = address - load.p_vaddr + load.p_offset
                break
    return found
