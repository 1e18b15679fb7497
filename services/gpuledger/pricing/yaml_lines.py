"""YAML as plain values that remember their lines, and in which no number is ever a float."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from gpuledger.contract.avro import MAX_DOCUMENT_BYTES
from gpuledger.contract.errors import ConfigError

MAX_DEPTH = 32  # values within values; the documents nest four deep
MAX_VALUES = 500_000  # aliases may repeat a value; a few lines must not expand without bound

_SURROGATE = re.compile("[\ud800-\udfff]")  # an escape can write one; no UTF-8 can hold it

Path: TypeAlias = tuple[str | int, ...]


@dataclass(slots=True)
class Plain:
    """One YAML document: mappings, lists, None, booleans and texts. A number is its text as written.

    ``lines`` is the line (from 1) of each value by its path.
    """

    name: str
    value: Any
    lines: dict[Path, int]

    def where(self, path: Path) -> str:
        """``file:line`` of a value, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines.get(path, 1)}"


def read_yaml(text: str, name: str) -> list[Plain]:
    """The documents of a file. Raises ConfigError with file and line where it is not YAML, a key is
    repeated, or it is over a limit."""
    if len(text.encode()) > MAX_DOCUMENT_BYTES:
        raise ConfigError(
            f"the document has more than {MAX_DOCUMENT_BYTES} bytes; ten thousand prices have 3 million",
            name,
        )
    try:
        nodes = list(yaml.compose_all(text, Loader=_LOADER))
    except RecursionError as error:
        raise ConfigError(f"values are nested more than {MAX_DEPTH} deep", name) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"this is not YAML: {error.problem or error.context}", f"{name}:{line}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not YAML: {' '.join(str(error).split())}", name) from error
    found = []
    for node in nodes:
        if node is not None:
            reader = _Reader(name)
            value = reader.value(node, ())
            if value is not None:
                found.append(Plain(name, value, reader.lines))
    return found


_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Path, int] = {}
        self._around: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines[path] = line
        if len(self.lines) > MAX_VALUES:
            raise ConfigError(f"the document has more than {MAX_VALUES} values", f"{self.name}:{line}")
        if isinstance(node, yaml.ScalarNode):
            if _SURROGATE.search(node.value):
                raise ConfigError("half of a surrogate pair is no text", f"{self.name}:{line}")
            return _scalar(node)
        if len(path) >= MAX_DEPTH:
            raise ConfigError(f"values are nested more than {MAX_DEPTH} deep", f"{self.name}:{line}")
        if id(node) in self._around:
            raise ConfigError("a value contains itself", f"{self.name}:{line}")
        self._around.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            assert isinstance(node, yaml.MappingNode)
            return dict(self._items(node, path))
        finally:
            self._around.discard(id(node))

    def _items(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key, item in node.value:
            where = f"{self.name}:{key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode) or _SURROGATE.search(key.value):
                raise ConfigError("a key must be a text", where)
            if key.value in seen:
                raise ConfigError(f"the key {key.value!r} is there twice", where)
            seen.add(key.value)
            value = self.value(item, (*path, key.value))
            self.lines[(*path, key.value)] = key.start_mark.line + 1
            yield key.value, value


def _scalar(node: yaml.ScalarNode) -> str | bool | None:
    if node.tag.endswith(":null"):
        return None
    if node.tag.endswith(":bool"):
        return bool(node.value.lower() in ("true", "yes", "on"))
    return str(node.value)
