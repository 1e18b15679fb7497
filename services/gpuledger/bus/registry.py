"""The schema registry over its REST API (Confluent's, which Apicurio and Karapace speak too).

What it answers is cached for good, since an id never changes its schema; that an id is unknown is cached
briefly. When the registry is away, that is an I/O error (RegistryUnavailable) and never a bad record.
Source: Confluent Schema Registry API, versions v1 and v7 of "ccompat".
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from gpuledger.bus.access import BusAccess
from gpuledger.bus.web import Answer, JsonClient, NoAnswer
from gpuledger.contract.clock import NS_PER_S, Clock, SystemClock
from gpuledger.contract.errors import BadRecord, ConfigError, Refused, RegistryUnavailable

UNKNOWN_SCHEMA = "unknown_schema"
"""Reason of the BadRecord for an id that the registry does not know."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
REQUEST_TIMEOUT_S = 10.0
RETRY_FOR_S = 60.0  # a restart of the registry takes seconds; a worker that waits longer had better say so
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# An id is registered before its first record is sent, so an unknown one stays unknown, but for a replica
# of the registry that lags; half a minute spares the registry a lookup for each record of a bad producer.
UNKNOWN_FOR_NS = 30 * NS_PER_S
MAX_CACHED_UNKNOWN = 10_000  # a producer of noise must not fill the memory
_UNKNOWN_CODES = frozenset({40401, 40402, 40403, 40408})  # subject, version, schema, rule
BACKWARD_OR_STRICTER = frozenset({"BACKWARD", "BACKWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"})
_RETRIED = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class Compatibility(NamedTuple):
    """Whether a schema may be the next version of a subject, and what speaks against it."""

    compatible: bool
    problems: tuple[str, ...]


class SchemaRegistry:
    """A client that caches. Safe to share between threads that only look up; owned by who closes it.

    Every method that asks the registry retries with growing pauses for `retry_for_s`, then raises
    RegistryUnavailable; ConfigError where it is not let in.
    """

    def __init__(
        self, settings: BusAccess, clock: Clock | None = None, retry_for_s: float = RETRY_FOR_S
    ) -> None:
        password = settings.registry_password()
        tls = settings.registry_tls_ca_file
        self._http = JsonClient(
            settings.registry_url,
            REQUEST_TIMEOUT_S,
            {"Accept": f"{MEDIA_TYPE}, application/json", "Content-Type": MEDIA_TYPE},
            (settings.registry_username or "", password.get_secret_value()) if password else None,
            str(tls) if tls else None,
        )
        self._clock = clock or SystemClock()
        self._retry_for_ns = int(retry_for_s * NS_PER_S)
        self._texts: dict[int, str] = {}
        self._parsed: dict[int, Mapping[str, Any]] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._unknown: dict[int, int] = {}  # id -> boot_ns until which it is taken as unknown
        self.lookups = 0  # requests made for ids, as a figure to watch

    def schema_text(self, schema_id: int) -> str:
        """The schema of an id, as it was registered. Raises BadRecord (unknown_schema) for an unknown one."""
        text = self._texts.get(schema_id)
        if text is not None:
            return text
        if self._clock.boot_ns() < self._unknown.get(schema_id, -1):
            raise self._no_such(schema_id)
        self.lookups += 1
        answer = self._ask("GET", f"/schemas/ids/{schema_id}")
        if answer is None:
            if len(self._unknown) >= MAX_CACHED_UNKNOWN:
                self._unknown.clear()
            self._unknown[schema_id] = self._clock.boot_ns() + UNKNOWN_FOR_NS
            raise self._no_such(schema_id)
        if answer.get("schemaType", "AVRO") != "AVRO":
            raise BadRecord(UNKNOWN_SCHEMA, f"schema {schema_id} is {answer['schemaType']}, not Avro")
        self._unknown.pop(schema_id, None)
        self._texts[schema_id] = str(answer["schema"])
        return self._texts[schema_id]

    def schema(self, schema_id: int) -> Mapping[str, Any]:
        """The parsed schema of an id; do not change it. Raises as `schema_text`."""
        parsed = self._parsed.get(schema_id)
        if parsed is None:
            text = self.schema_text(schema_id)
            try:
                parsed = json.loads(text)
            except ValueError as error:
                raise BadRecord(UNKNOWN_SCHEMA, f"schema {schema_id} is no JSON") from error
            if not isinstance(parsed, dict):
                raise BadRecord(UNKNOWN_SCHEMA, f"schema {schema_id} is no record")
            self._parsed[schema_id] = parsed
        return parsed

    def register(self, subject: str, text: str) -> int:
        """Id of the schema under the subject, registered there if it is not yet; cached.

        Give the canonical text: one schema spaced otherwise may become another version. Raises Refused
        where the subject's compatibility rule, or the registry's parser, is against it.
        """
        known = self._ids.get((subject, text))
        if known is None:
            answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})
            if answer is None:
                raise RegistryUnavailable(f"{self._http.base_url} knows no way to register {subject}")
            known = self._ids[subject, text] = int(answer["id"])
            self._texts[known] = text
            self._unknown.pop(known, None)
        return known

    def find(self, subject: str, text: str) -> int | None:
        """Id of the schema under the subject, or None where it is not registered; changes nothing."""
        known = self._ids.get((subject, text))
        if known is None:
            answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}", {"schema": text})
            if answer is None:
                return None
            known = self._ids[subject, text] = int(answer["id"])
        return known

    def check_compatible(self, subject: str, text: str) -> Compatibility:
        """Whether `text` may follow the subject's latest version; a subject without versions takes any."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        answer = self._ask("POST", path, {"schema": text})
        if answer is None:
            return Compatibility(True, ())
        return Compatibility(bool(answer["is_compatible"]), tuple(map(str, answer.get("messages") or ())))

    def versions(self, subject: str) -> list[int]:
        """Version numbers of a subject; empty where there is no such subject."""
        answer = self._request("GET", f"/subjects/{quote(subject, safe='')}/versions", None)
        return [] if answer is None else [int(version) for version in answer]

    def require_backward(self, subject: str) -> None:
        """Give the subject the rule BACKWARD unless it has that or a stricter one: Apicurio's own is NONE."""
        if self.compatibility(subject) not in BACKWARD_OR_STRICTER:
            self._ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": "BACKWARD"})

    def compatibility(self, subject: str | None = None) -> str:
        """The rule of a subject, else the global one: NONE, BACKWARD, ..."""
        answer = (
            self._ask("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true") if subject else None
        )
        if answer is None:  # a subject that has no rule of its own
            answer = self._ask("GET", "/config") or {}
        return str(answer.get("compatibilityLevel") or answer.get("compatibility") or "NONE")

    def close(self) -> None:
        """Let go of what was cached."""
        self._texts.clear()
        self._parsed.clear()
        self._ids.clear()

    def _no_such(self, schema_id: int) -> BadRecord:
        return BadRecord(UNKNOWN_SCHEMA, f"the registry knows no schema {schema_id}")

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        answer = self._request(method, path, body)
        if answer is not None and not isinstance(answer, dict):
            raise RegistryUnavailable(f"{self._http.base_url}{path} did not answer like a schema registry")
        return answer

    def _request(self, method: str, path: str, body: Mapping[str, object] | None) -> Any:
        """The JSON answer, or None where the registry says that there is no such thing."""
        give_up_ns = self._clock.boot_ns() + self._retry_for_ns
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                response = self._http.request(method, path, body)
            except NoAnswer as error:
                problem = str(error)
            else:
                if response.status not in _RETRIED:
                    return self._outcome(path, response)
                problem = f"status {response.status}"
            if self._clock.boot_ns() + int(pause_s * NS_PER_S) > give_up_ns:
                raise RegistryUnavailable(f"{method} {self._http.base_url}{path}: {problem}")
            self._clock.sleep(pause_s * random.uniform(0.5, 1.0))  # not all workers at once
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _outcome(self, path: str, response: Answer) -> Any:
        status, answer = response
        code, said = 0, ""
        if isinstance(answer, dict):
            code, said = answer.get("error_code", 0), str(answer.get("message", ""))
        if status < HTTPStatus.BAD_REQUEST and answer is not None:
            return answer
        if status == HTTPStatus.NOT_FOUND and code in _UNKNOWN_CODES:
            return None
        if status in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise Refused(f"the registry refuses the schema ({path}): {said or status}")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise ConfigError(
                f"the registry does not let us in (status {status}): check GPULEDGER_REGISTRY_*"
            )
        # a 404 without the registry's own code comes from something else that answers there
        raise RegistryUnavailable(
            f"{self._http.base_url}{path} did not answer like a schema registry (status {status} {said})"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
