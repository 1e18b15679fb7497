"""gpu.breaches to people: Alertmanager, signed webhooks, chat, e-mail; each target with its own offsets."""

from gpuledger.notify.document import read_targets
from gpuledger.notify.service import NotifyOptions, run

__all__ = ["NotifyOptions", "read_targets", "run"]
