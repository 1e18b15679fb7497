"""A server that speaks the part of the Kubernetes API that list and watch are made of, over real HTTP."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import threading
from pathlib import Path
from typing import Any

from aiohttp import web

from gpuledger.kube import KubeAccess
from tests.support.waiting import PATIENCE_S

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


class KubeApi:
    """Objects by path, one resource version for all, and the faults of a real server."""

    def __init__(
        self,
        page: int = 500,
        paths: tuple[str, ...] = (PODS, NODES, SLICES, CLAIMS),
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """``certificate``: (certificate, key) files; where given it serves TLS."""
        self.page = page
        self._tls = None
        if certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(*certificate)
        self.refuse = 0  # answer everything with this status
        self.token = ""  # where set, ask for it
        self.requests: list[str] = []
        self._objects: dict[str, dict[str, dict[str, Any]]] = {path: {} for path in paths}
        self.single: dict[str, dict[str, Any]] = {}  # objects that are asked for by their own path
        self._events: list[tuple[int, str, str, dict[str, Any]]] = []
        self._version = 100
        self._oldest = 0
        self._lock = threading.RLock()
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self.up()

    @property
    def access(self) -> KubeAccess:
        scheme = "http" if self._tls is None else "https"
        return KubeAccess(f"{scheme}://127.0.0.1:{self._port}")

    def up(self) -> None:
        """Serve, on the port of before."""
        self._do(self._up())

    def down(self) -> None:
        """Serve no more; connections break."""
        self._do(self._down())

    def close(self) -> None:
        self.down()
        self._do(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def put(self, path: str, item: dict[str, Any]) -> None:
        with self._lock:
            uid = item["metadata"]["uid"]
            kind = "MODIFIED" if uid in self._objects[path] else "ADDED"
            self._note(path, kind, item)
            self._objects[path][uid] = item

    def delete(self, path: str, uid: str) -> None:
        with self._lock:
            self._note(path, "DELETED", self._objects[path].pop(uid))

    def bookmark(self, path: str) -> None:
        with self._lock:
            self._note(path, "BOOKMARK", {"metadata": {}})

    def become(self, *paths: str) -> None:
        """A server of another version: it has these paths, and nothing of before."""
        with self._lock:
            self._objects = {path: {} for path in paths}
        self.forget()

    def forget(self) -> None:
        """Compact: who watches from before now is told 410."""
        with self._lock:
            self._version += 1
            self._oldest = self._version
            self._events.clear()

    def say(self, path: str, kind: str, item: dict[str, Any]) -> None:
        """An event as it stands, without a change."""
        with self._lock:
            self._version += 1
            self._events.append((self._version, path, kind, item))

    def count(self, path: str, watch: bool) -> int:
        """Requests so far to list, or to watch."""
        return sum(text.startswith(path + "?") and ("watch=true" in text) is watch for text in self.requests)

    def _note(self, path: str, kind: str, item: dict[str, Any]) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, path, kind, copy.deepcopy(item)))

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _up(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _down(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs if request.query_string else request.path + "?")
        if self.refuse:
            return web.Response(status=self.refuse)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        if request.path in self.single:
            return web.json_response(self.single[request.path])
        if request.path not in self._objects:
            return web.Response(status=404)
        if request.query.get("watch") == "true":
            return await self._watch(request)
        with self._lock:
            chosen = [
                item for _, item in sorted(self._objects[request.path].items()) if _wanted(item, request)
            ]
            start = int(request.query.get("continue", "0"))
            end = start + min(self.page, int(request.query.get("limit", "500")))
            metadata = {"resourceVersion": str(self._version)}
            if end < len(chosen):
                metadata["continue"] = str(end)
            return web.json_response({"kind": "List", "metadata": metadata, "items": chosen[start:end]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            with self._lock:
                expired = since < self._oldest
                news = [e for e in self._events if e[0] > since and e[1] == request.path]
            if expired:
                gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                return response
            for version, _, kind, item in news:
                since = version
                if kind == "BOOKMARK" or _wanted(item, request):
                    await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            await asyncio.sleep(0.01)


async def _end_tasks() -> None:
    """Watches whose client went away are still asleep."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _wanted(item: dict[str, Any], request: web.Request) -> bool:
    selector = request.query.get("fieldSelector", "")
    if not selector:
        return True
    field, _, value = selector.partition("=")
    found: Any = item
    for name in field.split("."):
        found = found.get(name, {})
    return bool(found == value)


def pod(
    uid: str,
    name: str = "train-0",
    namespace: str = "research",
    node: str = "node-a",
    phase: str = "Running",
    created: str = "2025-11-05T10:00:00Z",
    **more: Any,
) -> dict[str, Any]:
    """A pod as the API server writes it; ``more`` is merged into metadata, spec and status."""
    container = {"name": "main", "image": "train", "env": [], "resources": {}}
    made: dict[str, Any] = {
        "metadata": {"uid": uid, "name": name, "namespace": namespace, "creationTimestamp": created},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase},
    }
    for part in ("metadata", "spec", "status"):
        made[part].update(more.get(part, {}))
    return made


def claim(
    name: str,
    device: str,
    share: str = "",
    driver: str = "gpu.nvidia.com",
    consumed: dict[str, str] | None = None,
    admin: bool = False,
    config: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """An allocated ResourceClaim of the namespace research, as the API server writes it."""
    result: dict[str, Any] = {"request": "gpu", "driver": driver, "pool": "node-a", "device": device}
    result |= {"shareID": share} if share else {}
    result |= {"consumedCapacity": consumed} if consumed else {}
    result |= {"adminAccess": True} if admin else {}
    return {
        "metadata": {"uid": f"claim-{name}", "name": name, "namespace": "research"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {"allocation": {"devices": {"results": [result], "config": config or []}}},
    }


def node(name: str = "node-a", uid: str = "node-uid", labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A node as the API server writes it."""
    return {
        "metadata": {
            "uid": uid,
            "name": name,
            "labels": labels or {},
            "creationTimestamp": "2025-11-05T09:00:00Z",
        },
        "spec": {"providerID": "aws:///eu-west-1a/i-0abc"},
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }
