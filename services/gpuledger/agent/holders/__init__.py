"""Who holds which device, as the cluster says: sources of it, and the value that they give."""

from gpuledger.agent.holders.source import DeviceSharing, HeldDevice, Holders, HolderSource

__all__ = ["DeviceSharing", "HeldDevice", "HolderSource", "Holders"]
