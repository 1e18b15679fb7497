"""The records that a window was computed from, in figures."""

from __future__ import annotations

from typing import Any

from gpuledger.contract.records import EventBatch, Holdings, SampleBatch
from gpuledger.contract.topics import TELEMETRY
from gpuledger.explain.computed import Computed
from gpuledger.explain.stored import Head
from gpuledger.processor.reading import Telemetry


def inputs_of(head: Head, computed: Computed) -> list[dict[str, Any]]:
    """Each input with its place, its identity and what is in it; in order of offsets."""
    found = []
    for record in computed.decision.inputs:
        place = head.partition, record.offset
        body = computed.gathered.bodies.get(place)
        error = computed.gathered.errors.get(place)
        found.append(
            {
                "place": f"{TELEMETRY}/{head.partition}/{record.offset}",
                "append_ns": record.append_ns,
                "epoch": f"{record.identity.boot_id}/{record.identity.epoch_ns}",
                "sequence": record.identity.sequence,
                "part": record.part,
                "last": record.last,
                "amendment": record.amendment,
                "mend": record.mend,
                "bytes": record.size_bytes,
                "refused": None if error is None else str(error),
                **({} if body is None else _figures(body)),
            }
        )
    return found


def _figures(body: Telemetry) -> dict[str, Any]:
    match body:
        case EventBatch():
            return {
                "kind": "events",
                "events": int(body.time_ns.size),
                "calls": int(body.count.sum()),
                "processes": len(body.processes),
            }
        case SampleBatch():
            return {"kind": "samples", "samples": int(body.value.size), "gaps": len(body.gaps)}
        case Holdings():
            return {
                "kind": "keyframe" if body.keyframe else "holdings",
                "devices": len(body.layout.devices),
                "pods": len(body.pods),
                "holders": len(body.holders),
                "processes": len(body.processes),
            }
