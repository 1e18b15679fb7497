"""The committed versions of every schema, one after the other, through a real registry's rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuledger.bus import BusSettings, SchemaRegistry
from gpuledger.contract.history import versions
from gpuledger.contract.schemas import canonical_text, schema
from gpuledger.contract.topics import SCHEMA_FILES


@pytest.mark.parametrize("record", sorted(SCHEMA_FILES))
def test_the_registry_takes_every_version_after_the_one_before(
    bus: BusSettings, unique: Callable[[str], str], record: str
) -> None:
    subject = unique(record)
    with SchemaRegistry(bus) as registry:
        assert registry.compatibility() == "BACKWARD"
        for version in versions(record):
            text = canonical_text(version)
            assert registry.check_compatible(subject, text).compatible
            registry.register(subject, text)
        assert registry.find(subject, canonical_text(schema(record))) is not None


@pytest.mark.parametrize("record", sorted(SCHEMA_FILES))
def test_the_registry_refuses_a_new_field_without_a_default(
    bus: BusSettings, unique: Callable[[str], str], record: str
) -> None:
    subject, parsed = unique(record), schema(record)
    broken = {**parsed, "fields": [*parsed["fields"], {"name": "no_default", "type": "string"}]}
    with SchemaRegistry(bus) as registry:
        registry.register(subject, canonical_text(parsed))
        assert not registry.check_compatible(subject, canonical_text(broken)).compatible
