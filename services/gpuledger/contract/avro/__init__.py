"""The Avro codec of the wire contract: numeric arrays are numpy columns, malformed bytes are refused.

>>> codec = Codec(schema)
>>> codec.decode(codec.encode({"time_ns": times}))["time_ns"]
"""

from gpuledger.contract.avro import reasons
from gpuledger.contract.avro.codec import Codec
from gpuledger.contract.avro.limits import DEFAULT, DOCUMENT, MAX_DOCUMENT_BYTES, MAX_RECORD_BYTES, Limits
from gpuledger.contract.avro.parts import Parts

__all__ = [
    "DEFAULT",
    "DOCUMENT",
    "MAX_DOCUMENT_BYTES",
    "MAX_RECORD_BYTES",
    "Codec",
    "Limits",
    "Parts",
    "reasons",
]
