"""Configuration documents on their way from git to Kafka: `gpuledger config check` and `apply`."""

from gpuledger.configuration.plan import Applied, plan_version
from gpuledger.configuration.publish import Documents

__all__ = ["Applied", "Documents", "plan_version"]
