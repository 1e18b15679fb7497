"""A schema registry on loopback: Apicurio behind Confluent's API, its schemas in an H2 file."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

from gpuledger.localstack.artifacts import fetch, java
from gpuledger.localstack.errors import StackError
from gpuledger.localstack.server import (
    LOOPBACK,
    START_TIMEOUT_S,
    Server,
    free_port,
    port_open,
    short_lived_java,
)

HEAP_MIB = 256
# For a first connection to its database. Quarkus gives up after 5 s, and with it the whole start, where ten
# others want the two cores; how long a start may take is the caller's to say.
DATABASE_WAIT_S = START_TIMEOUT_S
_API = "/apis/ccompat/v7"  # Confluent's API, version 7
_REQUEST_TIMEOUT_S = 60.0  # the first request waits for classes to be loaded


class Registry(Server):
    """The registry with its data in `data_dir`; `url` is what clients of Confluent's registry take.

    Its compatibility rule is BACKWARD once started (Apicurio's own default is NONE).
    """

    name = "registry"

    def __init__(self, data_dir: Path, build_dir: Path) -> None:
        super().__init__(data_dir)
        self.build_dir = build_dir
        self.port = 0

    @property
    def url(self) -> str:
        """Base URL of Confluent's API."""
        return f"http://{LOOPBACK}:{self.port}{_API}"

    def choose_ports(self) -> None:
        """One port."""
        self.port = free_port()

    def command(self) -> list[str]:
        """A whole Quarkus application in one jar."""
        home = fetch(self.build_dir).resolve() / "registry"
        jars = sorted(home.glob("apicurio-registry-app-*-runner.jar"))
        if not jars:
            raise StackError(f"{home} holds no registry: remove {self.build_dir} and fetch again")
        options = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": str(self.port),
            "quarkus.log.level": "WARN",
            "quarkus.datasource.h2.jdbc.acquisition-timeout": f"PT{DATABASE_WAIT_S}S",
            # WRITE_DELAY: H2 would keep a commit in memory for half a second, and kill -9 lose it
            "apicurio.datasource.url": f"jdbc:h2:file:{self.data_dir.resolve() / 'registry'};WRITE_DELAY=0",
        }
        defines = [f"-D{name}={value}" for name, value in options.items()]
        return [
            java(),
            f"-Xmx{HEAP_MIB}m",
            *short_lived_java(self.build_dir, self.name),
            *defines,
            "-jar",
            str(jars[0]),
        ]

    def is_ready(self) -> bool:
        """It answers a listing; the port opens earlier."""
        if not port_open(self.port):
            return False
        try:
            return self._request("GET", "/subjects") == 200
        except (OSError, http.client.HTTPException):
            return False

    def after_start(self) -> None:
        """Set the global compatibility rule."""
        status = self._request("PUT", "/config", {"compatibility": "BACKWARD"})
        if status != 200:
            raise StackError(f"registry at {self.url} refused the rule BACKWARD with status {status}")

    def _request(self, method: str, path: str, body: dict[str, str] | None = None) -> int:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_REQUEST_TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
            connection.request(method, _API + path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()
