"""How idle and borrowed time is shared out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from gpuledger.contract.errors import ConfigError, Refused
from gpuledger.contract.windows import NS_PER_S

CHOICES = {
    "burst": ("pay", "reserved_first"),
    "entitlement": ("slots", "max(slots,memory)"),
    "mig": ("slices", "dominant"),
    "idle": ("holders", "pool", "cluster"),
}
"""The values of each setting; the first is the default."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The choices that move money between consumers; none of them changes a total.

    ``burst`` ``pay``: who uses above his entitlement pays for it, and relieves the holders who lent;
    ``reserved_first``: each holder pays for his whole entitlement, whoever used it.
    ``entitlement`` ``slots``: of time-slices and MPS replicas; ``max(slots,memory)``: at least the part of
    the device's memory that the holder's processes keep.
    ``mig`` ``slices``: an instance costs its SM slices; ``dominant``: its greater part of SMs and memory.
    ``idle`` ``holders``: held and idle time is its holder's; ``pool``: the pool's; ``cluster``: the pool's
    too, to be spread over the cluster by a query over closed hours.
    Raises Refused for a value that this core does not know, and for ``reserved_first`` with an idle time
    that is not the holders': what is reserved is paid for by who reserved it.
    """

    burst: str = "pay"
    entitlement: str = "slots"
    mig: str = "slices"
    idle: str = "holders"

    def __post_init__(self) -> None:
        for name, values in CHOICES.items():
            value = getattr(self, name)
            if value not in values:
                raise Refused(f"{name} policy {value!r} is not one of {', '.join(values)}")
        if self.burst == "reserved_first" and self.idle != "holders":
            raise Refused(f"idle policy {self.idle!r} does not go with burst policy 'reserved_first'")

    @staticmethod
    def settings_of(texts: Sequence[str], option: str = "--policy") -> dict[str, str]:
        """The settings of texts such as ``burst=reserved_first``.

        Raises ConfigError with the option for what is no setting, Refused for a value that this core does not
        know or two that do not go together.
        """
        found = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals:
                raise ConfigError(f"{text!r} is not NAME=VALUE, such as burst=reserved_first", option)
            if name not in CHOICES:
                raise ConfigError(
                    f"there is no such policy as {name}; there are {', '.join(CHOICES)}", option
                )
            found[name] = value
        Policy(**found)
        return found

    def name(self, window_length_ns: int) -> str:
        """Name on the rows: burst and length of the window, which decides who pays for idle moments, then
        every other setting that is not the default, such as ``pay/10s/mig=dominant``."""
        seconds, rest = divmod(window_length_ns, NS_PER_S)
        length = f"{seconds}s" if not rest else f"{window_length_ns}ns"
        changed = [
            f"{item.name}={getattr(self, item.name)}"
            for item in fields(self)
            if item.name != "burst" and getattr(self, item.name) != item.default
        ]
        return "/".join([self.burst, length, *changed])
