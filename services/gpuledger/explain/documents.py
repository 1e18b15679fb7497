"""Where price entries and team rules are written: the line in the document of a published version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from gpuledger.bus import unframed
from gpuledger.bus.log import Log, Schemas
from gpuledger.contract import topics
from gpuledger.contract.errors import BadRecord, ConfigError
from gpuledger.contract.records import PriceBookVersion, TeamMapVersion
from gpuledger.pricing.yaml_documents import places_of_ids

V = TypeVar("V", PriceBookVersion, TeamMapVersion)


class Documents:
    """The published documents of a log, each read when it is first asked for."""

    def __init__(self, log: Log, schemas: Schemas) -> None:
        self._log = log
        self._schemas = schemas

    def price_places(self, version: int) -> Mapping[str, str]:
        """``prices version N:line`` of each entry by its id; empty where nobody wrote a document."""
        return self._places(topics.PRICES, PriceBookVersion, version, "prices")

    def team_places(self, version: int) -> Mapping[str, str]:
        """The same of each rule."""
        return self._places(topics.TEAMS, TeamMapVersion, version, "teams")

    def _places(self, topic: str, cls: type[V], version: int, kind: str) -> Mapping[str, str]:
        for message in self._log.read_to_end(topic, 0):
            try:
                record = unframed(cls, message.value, self._schemas)
                if record.version == version:  # of two with one number the first holds
                    return places_of_ids(record.document, f"{kind} version {version}")
            except (BadRecord, ConfigError):
                continue
        return {}
