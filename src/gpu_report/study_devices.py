"""Which of a machine's devices a study takes, and what becomes of one that is named and not there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_report.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class StudyDevices:
    """PyTorch device names, the CPU first; `chosen` are those that the study takes where a row names none.

    One that is named and not there is refused, or passed over where `refuse_absent` is false.
    """

    present: tuple[str, ...]
    chosen: tuple[str, ...]
    refuse_absent: bool

    @property
    def fastest(self) -> list[str]:
        """The first accelerator, or the CPU."""
        return [*(name for name in self.chosen if name != "cpu"), *self.chosen][:1]

    def named(self, key: str, names: Sequence[str]) -> list[str]:
        """Those of the named devices that can be used; `key` is where in the configuration they are named.

        Raises:
            ConfigError: one of them is not there, and that is refused.
        """
        absent = [name for name in names if name not in self.present and name.removesuffix(":0") not in self.present]
        if absent and self.refuse_absent:
            found = ", ".join(self.present)
            raise ConfigError(f"{key}: device {absent[0]!r} is not present on this machine; use one of: {found}")
        return [name for name in names if name not in absent]


def choose_devices(configured: str | Sequence[str], present: tuple[str, ...], *, refuse_absent: bool) -> StudyDevices:
    """The devices of a study: `auto` is one of each kind that is there.

    Raises:
        ConfigError: one that the configuration names is not there, and that is refused.
    """
    first_of_a_kind = tuple(device for device in present if ":" not in device)
    devices = StudyDevices(present=present, chosen=first_of_a_kind, refuse_absent=refuse_absent)
    return devices if configured == "auto" else replace(devices, chosen=tuple(devices.named("devices", configured)))
