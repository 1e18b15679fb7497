"""Records of an older or newer writer, as the reader's schema sees them.

Resolution itself (fields matched by name or alias, defaults, promotions) is fastavro's. What comes out is
written again under the reader's schema, so that one strict decoder makes the values of all records.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.schema import Array, Map, Node, Record, Union
from gpuledger.contract.errors import BadRecord


class Resolution:
    """From one writer's schema to one reader's."""

    def __init__(self, writer: Mapping[str, Any], reader: Mapping[str, Any]) -> None:
        """Both are parsed .avsc documents that already compile."""
        import fastavro  # who only writes, as a node's agent does, need not carry it

        self._writer = fastavro.parse_schema(_without_logical_types(writer))
        self._reader = fastavro.parse_schema(_without_logical_types(reader))

    def rewrite(self, body: bytes | bytearray | memoryview) -> bytes:
        """A well-formed body of the writer's schema as a body of the reader's.

        Raises BadRecord where a value has no place in the reader's schema.
        """
        from fastavro.read import SchemaResolutionError, schemaless_reader
        from fastavro.write import schemaless_writer

        out = io.BytesIO()
        try:
            # Names of branches are kept, else a union of records could be written as another of them.
            value = schemaless_reader(io.BytesIO(body), self._writer, self._reader, return_named_type=True)
            schemaless_writer(out, self._reader, value)
        except (SchemaResolutionError, LookupError, TypeError, ValueError, OverflowError) as error:
            message = f"the writer's schema does not resolve: {error}"
            raise BadRecord(reasons.UNRESOLVED, message) from error
        return out.getvalue()


def changed_coding(writer: Node, reader: Node, path: str = "") -> str | None:
    """The first field that both schemas have and that only one of them codes by differences."""
    match writer, reader:
        case Record(), Record():
            by_name = {field.name: field for field in reader.fields}
            for field in writer.fields:
                other = by_name.get(field.name)
                if other is None:
                    continue
                name = f"{path}.{field.name}" if path else field.name
                if field.annotations.delta != other.annotations.delta:
                    return name
                found = changed_coding(field.node, other.node, name)
                if found is not None:
                    return found
            return None
        case (Array(a), Array(b)) | (Map(a), Map(b)):
            return changed_coding(a, b, path)
        case Union(branches), _:
            return next(filter(None, (changed_coding(branch, reader, path) for branch in branches)), None)
        case _, Union(branches):
            return next(filter(None, (changed_coding(writer, branch, path) for branch in branches)), None)
        case _:
            return None


def _without_logical_types(document: Any) -> Any:
    """The schema with plain values only: this codec interprets no logical types."""
    if isinstance(document, Mapping):
        return {key: _without_logical_types(v) for key, v in document.items() if key != "logicalType"}
    if isinstance(document, list):
        return [_without_logical_types(item) for item in document]
    return document
