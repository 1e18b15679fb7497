"""The messages of podresources.proto, made from its text when they are first needed: for listings in files.
The agent reads a kubelet's answers without them (`podresources_wire`).

They live in a pool of their own: another library may have registered the kubelet's package `v1` already.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PROTO = Path(__file__).with_name("podresources.proto")
_MESSAGE = re.compile(r"message (\w+) \{(.*?)\}", re.DOTALL)
_FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")
_Field = descriptor_pb2.FieldDescriptorProto


@cache
def messages() -> dict[str, type[Any]]:
    """Message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(name=PROTO.name, package="v1", syntax="proto3")
    text = re.sub(r"//.*", "", PROTO.read_text(encoding="utf-8"))
    for name, body in _MESSAGE.findall(text):
        message = file.message_type.add(name=name)
        for repeated, kind, field_name, number in _FIELD.findall(body):
            field = message.field.add(name=field_name, number=int(number))
            field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            if kind == "string":
                field.type = _Field.TYPE_STRING
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".v1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{message.name}"))
        for message in file.message_type
    }
