"""What configuration asks of the warehouse: one pod, and what past hours were charged as what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpuledger.contract.errors import Refused
from gpuledger.contract.windows import NS_PER_S
from gpuledger.warehouse import Warehouse, connect

LATEST_S = (1 << 32) - 1  # a DateTime of ClickHouse ends in February 2106

_POD = """
SELECT cluster, consumer_kind, consumer, namespace, pod, workload, team, toString(window_start)
FROM charges
WHERE window_start <= fromUnixTimestamp({at:UInt32})
  AND (consumer = {pod:String} OR pod = {name:String})
  AND (consumer = {pod:String} OR {namespace:String} = '' OR namespace = {namespace:String})
  AND ({cluster:String} = '' OR cluster = {cluster:String})
ORDER BY window_start DESC
LIMIT 1 BY cluster, namespace, consumer
LIMIT 20
"""


class LedgerPod(NamedTuple):
    """A consumer as its newest row has it."""

    cluster: str
    consumer_kind: str
    consumer: str
    namespace: str
    pod: str
    workload: str
    team: str
    window_start: str


@contextmanager
def opened(url: str) -> Iterator[Warehouse]:
    """A connection to the warehouse, closed in the end."""
    warehouse = connect(url)
    try:
        yield warehouse
    finally:
        warehouse.close()


def pod_in_ledger(url: str, pod: str, cluster: str, at_ns: int) -> LedgerPod:
    """The pod of a uid, a name or namespace/name. Raises Refused where there is none, or more than one place
    has one of that name."""
    namespace, _, name = pod.rpartition("/")
    parameters = {
        "at": min(at_ns // NS_PER_S, LATEST_S),
        "pod": pod,
        "name": name,
        "namespace": namespace,
        "cluster": cluster,
    }
    with opened(url) as warehouse:
        found = [LedgerPod(*row) for row in warehouse.rows(_POD, parameters)]
    if not found:
        raise Refused(f"the ledger has no row of {pod} up to then; its windows are kept for 35 days")
    places = sorted({f"{one.cluster}: {one.namespace}/{one.pod}" for one in found})
    if len(places) > 1:
        raise Refused(f"{pod} is more than one pod; say --cluster and namespace/name: {', '.join(places)}")
    return found[0]
