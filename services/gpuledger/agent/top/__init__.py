"""What the node's GPUs do now, pod by pod, from the same events as the agent's, without Kafka."""

from gpuledger.agent.top.activity import Activity, Consumer, DeviceNow, Snapshot
from gpuledger.agent.top.live import LiveNode

__all__ = ["Activity", "Consumer", "DeviceNow", "LiveNode", "Snapshot"]
