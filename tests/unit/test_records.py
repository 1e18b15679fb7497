"""The records of the contract agree with their schemas, and survive the wire."""

import dataclasses
import io
import json
from typing import Any

import fastavro
import numpy as np
import pytest

from gpuledger.contract import records
from gpuledger.contract.errors import BadRecord
from gpuledger.contract.operations import Operation
from gpuledger.contract.schemas import schema, schema_directory
from gpuledger.contract.topics import NAMESPACE, RECORDS_OF_TOPIC, SCHEMA_FILES, subject_of, topic_of

HEADER = records.Header("prod", "gpu-1", "b7c0", 17, 3, 1_700_000_000_000_000_000, 10**10)
PROCESS = records.Process(pid=4711, consumer_kind="pod", consumer="5e48-uid", container="main")
BATCH = records.EventBatch(
    header=HEADER,
    processes=[PROCESS],
    devices=["GPU-a", "GPU-b"],
    threads=np.array([4711, 4712]),
    functions=np.array([-(2**62)]),
    time_ns=np.array([1_700_000_000_000_000_005, 1_700_000_000_000_000_009]),
    process=np.array([0, 0]),
    thread=np.array([1, -1]),
    device=np.array([1, -1]),
    operation=np.array([Operation.LAUNCH_KERNEL, Operation.ALLOCATE_DEVICE]),
    duration_ns=np.array([900, 1200]),
    bytes=np.array([0, 2**34]),
    launched_threads=np.array([65536, 0]),
    function=np.array([0, -1]),
    result=np.array([0, 2]),
    count=np.array([1, 1]),
    span_ns=np.array([0, 0]),
)


def record_types(parsed: Any) -> list[dict[str, Any]]:
    if isinstance(parsed, list):
        return [found for branch in parsed for found in record_types(branch)]
    if isinstance(parsed, dict):
        if parsed["type"] == "record":
            inner = [found for field in parsed["fields"] for found in record_types(field["type"])]
            return [parsed, *inner]
        if parsed["type"] == "array":
            return record_types(parsed["items"])
    return []


def all_record_types() -> dict[str, dict[str, Any]]:
    return {found["name"]: found for name in SCHEMA_FILES for found in record_types(schema(name))}


@pytest.mark.parametrize("name", all_record_types())
def test_a_class_has_exactly_the_fields_of_its_schema(name: str) -> None:
    fields = {field["name"]: field for field in all_record_types()[name]["fields"]}
    ours = {field.name: field for field in dataclasses.fields(getattr(records, name))}
    assert set(ours) == set(fields)
    for key, field in ours.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        assert required == ("default" not in fields[key]), f"{name}.{key}"
        if field.default is not dataclasses.MISSING:
            assert field.default == fields[key]["default"], f"{name}.{key}"


@pytest.mark.parametrize("name", all_record_types())
def test_every_record_and_field_is_documented(name: str) -> None:
    found = all_record_types()[name]
    assert found["doc"]
    for field in found["fields"]:
        assert field.get("doc"), f"{name}.{field['name']}"


def test_every_schema_file_belongs_to_a_topic() -> None:
    files = {path.stem for path in schema_directory().glob("*.avsc")}
    assert files == set(SCHEMA_FILES.values())
    assert sorted(name for names in RECORDS_OF_TOPIC.values() for name in names) == sorted(SCHEMA_FILES)
    for name in SCHEMA_FILES:
        assert schema(name)["namespace"] == NAMESPACE
        assert subject_of(topic_of(name), name) == f"{topic_of(name)}-{NAMESPACE}.{name}"


def test_an_event_batch_survives_the_wire() -> None:
    found = records.decode(records.EventBatch, records.encode(BATCH))
    assert found.header == HEADER
    assert found.processes == [PROCESS]
    for field in dataclasses.fields(records.EventBatch):
        one, other = getattr(BATCH, field.name), getattr(found, field.name)
        if isinstance(one, np.ndarray):
            assert one.tolist() == other.tolist(), field.name


def test_any_avro_reader_reads_our_bytes() -> None:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema("EventBatch"))))
    plain: Any = fastavro.schemaless_reader(io.BytesIO(records.encode(BATCH)), parsed, parsed)
    assert plain["header"]["cluster"] == "prod"
    assert plain["time_ns"] == [1_700_000_000_000_000_005, 4], "times are the first, then differences"
    assert plain["thread"] == [1, -1]


def test_holders_refer_to_devices_of_the_layout() -> None:
    layout = records.NodeLayout(devices=[records.Device("GPU-a")])
    holder = records.Holder(consumer="uid", device=0)
    holdings = records.Holdings(
        HEADER, 0, layout=layout, holders=[holder], keyframe=True, unwitnessed=np.array([0])
    )
    found = records.decode(records.Holdings, records.encode(holdings))
    assert found.layout == layout
    assert found.holders == [holder]
    with pytest.raises(BadRecord) as refused:
        records.encode(dataclasses.replace(holdings, holders=[dataclasses.replace(holder, device=1)]))
    assert "device" in refused.value.field


def test_missing_values_stay_missing() -> None:
    rows = records.ChargeSet("c", "n", 0, 10**10, 0, 1, 2, 1, texts=["", "GPU-a"])
    for field in dataclasses.fields(rows):
        value = getattr(rows, field.name)
        if isinstance(value, np.ndarray) and not field.name.startswith("offset_"):
            setattr(rows, field.name, np.array([np.nan] if value.dtype == np.float64 else [0]))
    found = records.decode(records.ChargeSet, records.encode(rows))
    assert np.isnan(found.sm_active).all()
    assert found.used_ns.tolist() == [0]


def test_columns_of_unequal_length_are_refused_by_name() -> None:
    with pytest.raises(BadRecord, match="result"):
        records.encode(dataclasses.replace(BATCH, result=np.array([0])))
