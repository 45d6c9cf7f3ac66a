"""Which machine this is: its hardware, the id made from it, and the devices that PyTorch can train
on.
"""

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gpu_report import __version__
from gpu_report.errors import MachineError
from gpu_report.storage.files import write_text_atomically
from gpu_report.study.control_groups import cpu_quota

DESCRIPTIONS: Final = Path("results/machines")
"""Where descriptions of machines are kept, beside the folders of their results."""
HERE: Final = DESCRIPTIONS / "here.json"
"""That of this machine, so that PyTorch is asked once and not at every command."""

_DEVICE_FILES: Final = (
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/kfd",
    "/dev/dri",
    "/dev/accel",
    "/dev/dxg",
)
_VISIBILITY: Final = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)
_TRADE_MARK: Final = r"\((?:r|tm|c)\)"
_CPU_NOISE: Final = re.compile(
    rf"{_TRADE_MARK}|\bcpu\b|@.*|\b(?:intel|amd|apple|arm|processor|genuine|virtual)\b"
    r"|\d+(?:st|nd|rd|th) gen"
    r"|\b(?:\w+-)?\d*-?core\b|with radeon.*|0000",
    re.IGNORECASE,
)
_ACCELERATOR_NOISE: Final = re.compile(
    rf"{_TRADE_MARK}|\b(?:nvidia|amd|intel|geforce|radeon|instinct|tesla|gpu|graphics)\b"
    r"|\b(?:hbm\w*|pcie|sxm\d?|nvl)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One device beside the CPU, under the backend name PyTorch gives it, for instance `cuda`."""

    backend: str
    name: str
    memory_gib: float


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The hardware that measurements belong to.

    `accelerator_reason` says why there are no accelerators, as PyTorch reports it; empty where
    there are some.
    """

    cpu_model: str
    cores: int
    memory_gib: float
    accelerators: tuple[Accelerator, ...] = ()
    accelerator_reason: str = ""

    @property
    def id(self) -> str:
        """A name made from the hardware, for instance `h100-80gb-x1-xeon-16c`."""
        cpu = f"{_slug(_CPU_NOISE.sub(' ', self.cpu_model)) or 'cpu'}-{self.cores}c"
        if not self.accelerators:
            return cpu
        first = self.accelerators[0]
        name = _slug(_ACCELERATOR_NOISE.sub(" ", first.name)) or first.backend
        if not re.search(r"\d+gb", name):
            name += f"-{round(first.memory_gib)}gb"
        return f"{name}-x{len(self.accelerators)}-{cpu}"

    @property
    def devices(self) -> tuple[str, ...]:
        """PyTorch device names, the CPU first."""
        return (
            "cpu",
            *(device_name(each.backend, index) for index, each in enumerate(self.accelerators)),
        )


def cpu_has_bf16(flags: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this machine's CPU computes in bf16 itself; without that bf16 is slower than fp32."""
    return flags.exists() and bool(
        re.search(r"\b(?:avx512_bf16|amx_bf16)\b", flags.read_text("utf-8"))
    )


def device_name(backend: str, index: int) -> str:
    """PyTorch's name for an accelerator; from the second on with its index, as in `cuda:1`."""
    return f"{backend}:{index}" if index else backend


def hardware_words(environments: Iterable[Mapping[str, Any]], *, gpus: int = 1) -> str:
    """The machine that these environments were found on, for readers: `2 × NVIDIA H100 80GB HBM3,
    AMD EPYC, 16 cores`, with how many GPUs shared a training.

    Empty where they have nothing of it.
    """
    facts = {
        key: value
        for environment in environments
        for key, value in environment.items()
        if value is not None
    }
    cores = f"{facts['cpu_cores']} cores" if "cpu_cores" in facts else None
    parts = [
        str(part) for part in (facts.get("accelerator"), facts.get("cpu_model"), cores) if part
    ]
    found = re.sub(_TRADE_MARK, "", ", ".join(parts), flags=re.IGNORECASE)
    return f"{gpus} × {found}" if found and gpus > 1 else found


def find_machine(cache: Path = HERE) -> Machine:
    """This machine; PyTorch is asked for accelerators once per boot, environment and PyTorch
    version.

    Raises:
        MachineError: the process that asks PyTorch failed.
    """
    device_files = [path for path in _DEVICE_FILES if Path(path).exists()]
    key = {
        "package": __version__,
        "host": platform.node(),
        "boot": boot(),
        "cores": core_count(),
        "python": sys.executable,
        "torch": package_version("torch"),
        "device_files": device_files,
        "visible": {name: os.environ[name] for name in _VISIBILITY if name in os.environ},
    }
    known = read_description(cache, key)
    if known is not None:
        return known
    found = probe_accelerators()
    machine = _describe(found)
    # An accelerator that has a device file may be unusable only now, for instance while its driver
    # starts.
    if found["accelerators"] or found["built_for"] is None or not device_files:
        write_description(cache, key, machine)
    return machine


def describe_here() -> Machine:
    """This machine, as PyTorch finds it now.

    Raises:
        MachineError: the process that asks PyTorch failed.
    """
    return _describe(probe_accelerators())


def require_machine(machine: str) -> None:
    """Refuse to measure for another machine than this one.

    Raises:
        MachineError: this machine has another id.
    """
    here = find_machine().id
    if here != machine:
        raise MachineError(
            f"this machine is {here}, but what is to be measured is {machine}; for a cluster's "
            "machine use --profile profiles/slurm, name nodes that differ as two machines in "
            f"config/machines.yaml, and if a node has changed delete its {DESCRIPTIONS}/NAME.json"
        )


def write_description(file: Path, key: Mapping[str, Any], machine: Machine) -> None:
    """Keep what a machine is; it is read again for the same key alone.

    Raises:
        FileWriteError: the file cannot be written.
    """
    write_text_atomically(
        file, json.dumps({"key": key, "machine": asdict(machine)}, indent=1) + "\n"
    )


def probe_accelerators() -> dict[str, Any]:
    """What PyTorch finds (`measure.probe.probe`), asked in a process of its own: this one stays
    free of PyTorch.

    Raises:
        MachineError: the process failed or printed something else.
    """
    command = [sys.executable, "-m", "gpu_report.measure.probe"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(answer.stdout)
    except ValueError as error:
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise MachineError(
            f"asking PyTorch for devices failed: {last}; try: {' '.join(command)}"
        ) from error
    return found


def boot() -> str:
    """The number of when this machine was booted; empty where the system has none."""
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text("ascii").strip() if file.exists() else ""


def package_version(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _describe(found: Mapping[str, Any]) -> Machine:
    return Machine(
        cpu_model=cpu_model(),
        cores=core_count(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        accelerators=tuple(Accelerator(**values) for values in found["accelerators"]),
        accelerator_reason=found["reason"],
    )


def read_description(file: Path, key: Mapping[str, Any]) -> Machine | None:
    """None where the file is missing, damaged, of another key or of another shape."""
    try:
        values = json.loads(file.read_text("utf-8"))
        if values["key"] != key:
            return None
        accelerators = tuple(Accelerator(**each) for each in values["machine"]["accelerators"])
        return Machine(**{**values["machine"], "accelerators": accelerators})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def usable_cores() -> tuple[int, ...]:
    """The numbers of the logical cores that this process may run on; of all where the system pins
    no process.
    """
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def core_count() -> int:
    """How many cores this process can use fully: those it may run on, or fewer if a control group
    has a CPU quota.

    A quota of 3.5 cores counts as 3. With a fourth thread, each of the kernel's periods would run
    out of quota early, and all four threads would stop until the next.
    """
    return max(1, int(min(len(usable_cores()), cpu_quota() or math.inf)))


def default_threads(device_type: str, *, cores: int, sharing: int) -> int:
    """Threads of each process that shares a training, on a machine with this many cores.

    On the CPU, one for each logical core. With an accelerator, the threads only collate batches: on
    16 cores one H100 trained as fast with 1 thread as with 16, and epochs that read batches from a
    loader varied by 10 % instead of 16 % (docs/evidence.md). Pinning the process to fewer cores
    changed neither.
    """
    return max(1, cores // sharing) if device_type == "cpu" else 1


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text("utf-8"), re.MULTILINE)
        if match:
            return match.group(1).strip()
    if sys.platform == "darwin":
        return subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    return platform.processor() or platform.machine()


def _slug(text: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))
