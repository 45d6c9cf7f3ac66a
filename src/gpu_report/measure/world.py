"""The processes of one training: which of them this is, and what they agree on outside the timed
region.

torchrun's agent gives each process its rank; `join` makes them one group. A plain process is alone,
and everything here returns at once.
"""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

import torch
from torch import distributed, nn
from torch.distributed.tensor import DTensor

from gpu_report.workloads.protocol import WorkloadError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class World:
    """`size` processes, this one being number `rank` of them.

    `is_launched` distinguishes a process started as a rank, even where it is the only one, from a
    plain process.
    """

    rank: int = 0
    size: int = 1
    is_launched: bool = False
    agents: int = 1
    """How many started its processes, each of them those of one host."""
    pids: tuple[int, ...] = ()
    """Of all its processes, and first of the one that started them."""

    def wait(self) -> None:
        """Go on when all processes are here."""
        self.gather(None)

    def agree(self, value: float, choose: Callable[[list[float]], float]) -> float:
        """What this function chooses of the processes' values: the same for all of them."""
        return choose(self.gather(value))

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in the order of their ranks; each of them gets the list."""
        if not self.is_launched:
            return [value]
        values: list[T | None] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def send(self, value: T, *, from_rank: int) -> T:
        """What that process gives; every process gets it."""
        if not self.is_launched:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=from_rank)
        return values[0]


ALONE: Final = World()


def join(device: torch.device, *, expected: int, patience_s: float) -> World:
    """Become one of the processes that torchrun's agent started; blocks until all of them have
    come.

    Whenever one waits longer than `patience_s` for the others, it raises an error.

    Raises:
        WorkloadError: there are not as many as expected.
    """
    if sys.platform == "linux" and os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
        # On one host gloo need not ask which of its networks leads to the others.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if device.type == "cuda":
        # Else NCCL, tired of waiting, keeps a process for another minute to write down what it
        # waited for.
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
        os.environ.setdefault("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "500")
    of_device = distributed.get_default_backend_for_device(device)
    distributed.init_process_group(
        # What processes agree on is on the host.
        "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:{of_device}",
        timeout=timedelta(seconds=patience_s),
        device_id=None if device.type == "cpu" else device,
    )
    size = distributed.get_world_size()
    if size != expected:
        raise WorkloadError(
            f"parallelism: {expected} processes are asked for and {size} have joined; check how "
            "many each host starts"
        )
    joined = World(
        rank=distributed.get_rank(),
        size=size,
        is_launched=True,
        agents=int(os.environ["GROUP_WORLD_SIZE"]),
    )
    return replace(joined, pids=(os.getppid(), *joined.gather(os.getpid())))


def leave(world: World) -> None:
    """Give the group's connections back."""
    if world.is_launched:
        distributed.destroy_process_group()


def check_equal_parameters(world: World, model: nn.Module, *, may_differ: bool = False) -> str:
    """SHA-256 over the model's parameters, bit by bit, which are the same in every process.

    Raises:
        WorkloadError: they differ and may not; then the processes did not train one model, however
            good their times look.
    """
    digest = hashlib.sha256()
    for parameter in model.parameters():
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        # Of one layout, so that its bytes follow each other; clones of channels-last weights need
        # not.
        values = whole.detach().cpu().clone(memory_format=torch.contiguous_format).flatten()
        digest.update(values.view(torch.uint8).numpy().tobytes())
    found = world.gather(digest.hexdigest())
    different = [rank for rank, each in enumerate(found) if each != found[0]]
    if different and not may_differ:
        raise WorkloadError(
            f"the parameters of rank {different[0]} differ from those of rank 0 after training: "
            "gradients were not averaged over all processes; call the model itself, not what it "
            "wraps, and let every parameter take part in the loss"
        )
    return found[world.rank]
