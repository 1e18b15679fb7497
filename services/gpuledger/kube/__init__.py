"""The Kubernetes API as the agent and the inventory need it: list and watch, and what a node's labels say.

Three requests of the API are all that is used, over the standard library's HTTP: the official client takes
as much memory (42 MB) as the whole agent may.
"""

from gpuledger.kube.access import KubeAccess, KubeClient
from gpuledger.kube.labels import instance_id, layout_of_labels, layout_of_node
from gpuledger.kube.reflector import Gone, Reflector
from gpuledger.kube.times import parse_time_ns

__all__ = [
    "Gone",
    "KubeAccess",
    "KubeClient",
    "Reflector",
    "instance_id",
    "layout_of_labels",
    "layout_of_node",
    "parse_time_ns",
]
