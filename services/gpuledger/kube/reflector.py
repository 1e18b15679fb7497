"""A local copy of some objects of the API server, kept by list and watch.

The protocol is the API's own (kubernetes.io, "Efficient detection of changes"): list, then watch from the
list's resource version; bookmarks move the version on; 410 Gone means list again; a list that lacks an
object says that it is gone. While the server is away the copy stays as it was.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

from gpuledger.contract.clock import NS_PER_S, Clock
from gpuledger.contract.errors import Unavailable
from gpuledger.kube.access import Expired, KubeClient, Refusal
from gpuledger.kube.http import Answer
from gpuledger.logs import EventLog

T = TypeVar("T")

WATCH_S = 300  # the server ends a watch after that; a few minutes, as client-go asks for
WATCH_SLACK_S = 15.0  # a watch that is silent so much longer is a dead connection
EXPIRED_PAUSE_S = 0.1  # a server that answers 410 to everything is not asked in a tight loop
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STOP_S = 3.0
KEEP_GONE_NS = 300 * NS_PER_S  # a pod that lived for a second is still named; windows close within a minute

_log = EventLog(__name__)


class Gone(NamedTuple, Generic[T]):
    """An object that is deleted, and when that was noticed (wall clock, ns)."""

    value: T
    noticed_ns: int


class Reflector(Generic[T]):
    """Objects at ``path`` by uid, each as ``reduce`` makes it of the JSON (None: not wanted).

    ``older``: where the same objects are on servers that have no such path, in the order in which they are
    tried; the path is tried again after the last of them, for servers are upgraded. One thread keeps the
    copy; all else may be called from any thread. It borrows the client.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        reduce: Callable[[dict[str, Any]], T | None],
        clock: Clock,
        parameters: Mapping[str, str] | None = None,
        older: Sequence[str] = (),
    ) -> None:
        self._paths = (path, *older)
        self._missed = 0  # paths in a row that were not there
        self._client = client
        self._path = path
        self._reduce = reduce
        self._clock = clock
        self._parameters = dict(parameters or {})
        self._lock = threading.Lock()
        self._objects: dict[str, T] | None = None
        self._gone: dict[str, Gone[T]] = {}
        self._version = ""
        self._problem = ""
        self._absent = False
        self._stop = threading.Event()
        self._answer: Answer | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    @property
    def problem(self) -> str:
        """Why the server does not tell of changes now; empty while it does."""
        return self._problem

    @property
    def is_absent(self) -> bool:
        """Whether the server has no such kind of objects (404): its definition is not installed."""
        return self._absent

    def objects(self) -> dict[str, T] | None:
        """All objects by uid as last known; None before the first list."""
        with self._lock:
            return None if self._objects is None else dict(self._objects)

    def gone(self) -> dict[str, Gone[T]]:
        """Objects that went in the last minutes, by uid."""
        with self._lock:
            return dict(self._gone)

    def start(self) -> None:
        """Begin to keep the copy."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that hangs in the network is left behind."""
        self._stop.set()
        answer = self._answer
        if answer is not None:
            answer.abort()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._absent = False
                self._missed = 0
                self._problem = ""
                pause_s = FIRST_PAUSE_S
                self._watch()
            except Expired:
                self._version = ""
                self._stop.wait(EXPIRED_PAUSE_S)
            except Unavailable as error:
                if self._stop.is_set():
                    return
                if isinstance(error, Refusal) and error.status == HTTPStatus.NOT_FOUND:
                    self._missed += 1
                    self._path = self._paths[self._missed % len(self._paths)]
                    self._version = ""
                    if self._missed % len(self._paths):
                        continue
                    self._absent = True
                else:
                    self._absent = False
                if not self._problem:
                    _log.warning("watch_failed", path=self._path, error=str(error))
                self._problem = str(error)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception as error:
                # what one object makes us stumble over must not end the copy for good
                _log.exception("watch_stumbled", path=self._path)
                self._problem, self._version = repr(error), ""
                self._stop.wait(pause_s)

    def _list(self) -> None:
        items, version = self._client.items(self._path, self._parameters)
        found = {}
        for item in items:
            value = self._reduce(item)
            if value is not None:
                found[_uid(item)] = value
        with self._lock:
            for uid, value in (self._objects or {}).items():
                if uid not in found:
                    self._note_gone(uid, value)
            self._objects = found
        self._version = version

    def _watch(self) -> None:
        parameters = {
            **self._parameters,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            "resourceVersion": self._version,
        }
        with self._client.stream(self._path, parameters, WATCH_S + WATCH_SLACK_S) as answer:
            self._answer = answer
            try:
                if self._stop.is_set():
                    return  # `stop` may have come before there was an answer to end
                for line in answer.lines():
                    if self._stop.is_set():
                        return
                    if line.strip():
                        self._take(line)
            finally:
                self._answer = None

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, item = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"{self._path}: a watch event is no JSON object: {line[:80]!r}") from error
        if kind == "ERROR":
            if item.get("code") == HTTPStatus.GONE:
                raise Expired(f"{self._path}: {item.get('message', '410')}")
            self._version = ""
            raise Unavailable(f"{self._path}: {item.get('message', item)}")
        if kind != "BOOKMARK":
            value = None if kind == "DELETED" else self._reduce(item)
            with self._lock:
                self._put(_uid(item), value, self._reduce(item) if kind == "DELETED" else None)
        version = (item.get("metadata") or {}).get("resourceVersion")
        self._version = str(version or self._version)

    def _put(self, uid: str, value: T | None, last: T | None) -> None:
        assert self._objects is not None
        if value is not None:
            self._objects[uid] = value
            self._gone.pop(uid, None)
            return
        before = self._objects.pop(uid, None)
        final = last if last is not None else before
        if final is not None:
            self._note_gone(uid, final)

    def _note_gone(self, uid: str, value: T) -> None:
        now = self._clock.unix_ns()
        self._gone = {u: g for u, g in self._gone.items() if g.noticed_ns > now - KEEP_GONE_NS}
        self._gone[uid] = Gone(value, now)


def _uid(item: Mapping[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("uid") or "")
