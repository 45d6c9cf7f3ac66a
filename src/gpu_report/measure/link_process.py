"""What happens inside one launch that measures the link between devices: a process for each, as
when they train.

measure_link (touches no device) -> a rank for each device -> operations by payload -> times of the
slowest rank
"""

import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from gpu_report.measure.calibration_plan import LinkPlan
from gpu_report.measure.calibration_process import room
from gpu_report.measure.children import end_with_parent
from gpu_report.measure.launch import start_ranks
from gpu_report.measure.telemetry import initialized_nvml
from gpu_report.measure.timing import step_clock, synchronize
from gpu_report.measure.world import World, join, leave
from gpu_report.records.calibration import DevicePair, Link, LinkOperation, Operation

_PATIENCE_S: Final = 60
_BYTES_PER_VALUE: Final = 4
_TOPOLOGY: Final = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t -> as nvidia-smi topo -m writes it: what a path over PCI Express goes
through at most.
"""


def measure_link(devices: Sequence[str], plan: LinkPlan) -> Link:
    """What these devices reach together, and of more than two also the first two; each operation
    with one value.

    Raises:
        RuntimeError: a rank failed; it is named with its reason.
    """
    links = [_launch(devices[:count], plan) for count in sorted({2, len(devices)})]
    return links[-1].model_copy(
        update={"operations": [each for link in links for each in link.operations]}
    )


def _launch(devices: Sequence[str], plan: LinkPlan) -> Link:
    with TemporaryDirectory() as folder:
        try:
            links = start_ranks(
                len(devices),
                _measure_as_rank,
                devices,
                plan,
                log_folder=Path(folder),
                run_id=f"link{len(devices)}.{os.getpid()}",
            )
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            said: Any = failure.message
            raise RuntimeError(
                f"rank {rank}: {said if isinstance(said, str) else said['message']}"
            ) from error
    return links[0]


def _measure_as_rank(devices: Sequence[str], plan: LinkPlan) -> Link:
    end_with_parent()
    device = torch.device(devices[int(os.environ["RANK"])])
    if device.type != "cpu":
        device = torch.device(device.type, device.index or 0)
        torch.accelerator.set_device_index(device.index)
    world = join(device, expected=len(devices), patience_s=_PATIENCE_S)
    backend = distributed.get_default_backend_for_device(device)
    of_nccl: dict[str, Any] = {}
    if backend == "nccl":
        version = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
        multicast = "off" if os.environ.get("NCCL_NVLS_ENABLE") == "0" else "left to NCCL"
        of_nccl = {"backend_version": ".".join(map(str, version)), "multicast": multicast}
    link = Link(
        devices=list(devices),
        backend=backend,
        **of_nccl,
        pairs=device_pairs(devices) if world.rank == 0 else [],
        operations=_measure_operations(device, world, plan),
    )
    leave(world)
    return link


def _measure_operations(device: torch.device, world: World, plan: LinkPlan) -> list[LinkOperation]:
    """The first operation with all payloads, the smallest first, then the next; the same of every
    rank.
    """
    most = world.agree(room(device), min) / 2
    counts = [size // _BYTES_PER_VALUE // world.size for size in plan.payload_bytes if size <= most]
    if not counts:
        return []
    whole, part = (torch.empty(n * max(counts), device=device) for n in (world.size, 1))
    return [
        LinkOperation(
            operation=operation,
            devices=world.size,
            bytes=_BYTES_PER_VALUE * world.size * count,
            times_s=[
                _median_time_s(operation, whole[: world.size * count], part[:count], world, plan)
            ],
        )
        for operation in _OPERATIONS
        # Between two devices it is the same however many others there are.
        if operation != "point-to-point" or world.size == 2
        for count in counts
    ]


def _point_to_point(whole: torch.Tensor, _part: torch.Tensor) -> object:
    return distributed.send(whole, 1) if distributed.get_rank() == 0 else distributed.recv(whole, 0)


_OPERATIONS: Final[dict[Operation, Callable[[torch.Tensor, torch.Tensor], object]]] = {
    "all-reduce": lambda whole, _: distributed.all_reduce(whole),
    "all-gather": distributed.all_gather_into_tensor,
    "reduce-scatter": lambda whole, part: distributed.reduce_scatter_tensor(part, whole),
    "point-to-point": _point_to_point,
}
"""What each does with a whole payload and the part of it that is a rank's own."""


def _median_time_s(
    operation: Operation, whole: torch.Tensor, part: torch.Tensor, world: World, plan: LinkPlan
) -> float:
    """It runs before, once to connect what it needs, and then to learn how often the budget holds
    it.
    """

    def times_s(timings: int, operations: int) -> list[float]:
        """Of one operation in each timing, as the slowest rank has it."""
        clock = step_clock(whole.device)
        synchronize(whole.device)
        world.wait()
        for _ in range(timings):
            # Zeros would draw less power, and what was summed before would grow without end.
            whole.normal_()
            part.normal_()
            clock.mark()
            for _ in range(operations):
                _OPERATIONS[operation](whole, part)
            clock.mark()
        synchronize(whole.device)
        own_ms = clock.step_times_ms()[::2]
        return [
            max(of_ranks) / 1e3 / operations for of_ranks in zip(*world.gather(own_ms), strict=True)
        ]

    times_s(1, 1)
    once_s = min(times_s(3, 1))  # one rank begins later than another
    operations = min(max(int(plan.timing_s / once_s), 1), plan.most_operations)
    timings = max(int(plan.budget_s / once_s / operations), plan.least)
    return statistics.median(times_s(timings, operations))


def device_pairs(devices: Sequence[str]) -> list[DevicePair]:
    """Every two of these CUDA devices and how they are connected; none of another kind, where
    PyTorch cannot say.
    """
    if torch.device(devices[0]).type != "cuda":
        return []
    nvml = initialized_nvml()
    return [
        DevicePair(
            devices=names,
            has_peer_access=torch.cuda.can_device_access_peer(
                *(torch.device(name).index or 0 for name in names)
            ),
            connection=connection(
                nvml, *(f"GPU-{torch.cuda.get_device_properties(name).uuid}" for name in names)
            )
            if nvml
            else None,
        )
        for names in combinations(devices, 2)
    ]


def connection(nvml: Any, first_uuid: str, second_uuid: str) -> str | None:
    """How two GPUs are connected, as nvidia-smi topo -m writes it: `NV18` for 18 NVLinks, or the
    path over PCI Express.

    None where the driver does not say.
    """
    try:
        first, second = (nvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in (first_uuid, second_uuid))
        links = _nvlinks(nvml, first, second)
        return (
            f"NV{links}"
            if links
            else _TOPOLOGY.get(nvml.nvmlDeviceGetTopologyCommonAncestor(first, second))
        )
    except nvml.NVMLError:
        return None


def _nvlinks(nvml: Any, first: Any, second: Any) -> int:
    """Active NVLinks from one GPU to the other, or, where switches are between them, from one to
    the switches.
    """
    active = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        with suppress(nvml.NVMLError):  # it has fewer links
            if nvml.nvmlDeviceGetNvLinkState(first, link):
                active.append(link)
    address, direct = _address(nvml.nvmlDeviceGetPciInfo(second)), 0
    for link in active:
        with suppress(nvml.NVMLError):  # in a virtual machine the other end may be hidden
            direct += _address(nvml.nvmlDeviceGetNvLinkRemotePciInfo(first, link)) == address
    if direct or not active:
        return direct
    status = nvml.nvmlDeviceGetP2PStatus(first, second, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return len(active) if status == nvml.NVML_P2P_STATUS_OK else 0


def _address(pci: Any) -> tuple[int, int, int]:
    return pci.domain, pci.bus, pci.device
