"""A model in stages that follow each other, one for each device that shares it: made of the pieces
of its workload.
"""

import copy
import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain, islice
from typing import Any, Final

import torch
from torch import Tensor, nn

from gpu_report.measure.arithmetic import Arithmetic
from gpu_report.measure.random_numbers import keep_random_numbers
from gpu_report.measure.timing import synchronize
from gpu_report.measure.world import World
from gpu_report.workloads.protocol import NamesPieces, TrainingWorkload, WorkloadError

_TIMED_PASSES: Final = 3


class Stages(nn.Module):
    """All stages as one model, on whatever devices; its output comes back to the device of its
    inputs.
    """

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    @property
    def sizes(self) -> list[int]:
        """How many pieces each has."""
        return [len(list(stage.children())) for stage in self.stages]

    def forward(self, inputs: Tensor) -> Tensor:
        passed: tuple[Tensor, ...] = (inputs,)
        for stage in self.stages:
            device = next(chain(stage.parameters(), stage.buffers()), passed[0]).device
            passed = as_tuple(stage(*(each.to(device, non_blocking=True) for each in passed)))
        (output,) = passed
        return output.to(inputs.device, non_blocking=True)


class _Stage(nn.ModuleList):
    """Pieces, each of which takes what the one before it returned."""

    def forward(self, *taken: Tensor) -> tuple[Tensor, ...]:
        for piece in self:
            taken = as_tuple(piece(*taken))
        return taken


def in_stages(
    workload: TrainingWorkload,
    model: nn.Module,
    arithmetic: Arithmetic,
    *,
    inputs: Tensor,
    devices: Sequence[torch.device],
    world: World,
    sizes: Sequence[int],
) -> Stages:
    """The model in a stage on each device, of `sizes` pieces each; without sizes they take as equal
    times as can be.

    `inputs` are those of a part of a batch, on the device where the model is.

    Raises:
        WorkloadError: the workload names no pieces or too few, or together they are not the model.
    """
    pieces = _pieces_of(workload, model, devices=len(devices))
    if not sizes:
        seconds: list[float] = []
        if world.rank == 0:  # the others wait, since they would take its cores
            with keep_random_numbers(inputs.device):
                _check_together(workload, model, pieces, inputs, arithmetic)
                seconds = seconds_of(pieces, inputs, arithmetic)
        sizes = sizes_of_stages(world.send(seconds, from_rank=0), len(devices))
    given = iter(pieces)
    return Stages(
        [
            _Stage(islice(given, size)).to(device)
            for size, device in zip(sizes, devices, strict=True)
        ]
    )


def _pieces_of(workload: TrainingWorkload, model: nn.Module, *, devices: int) -> list[nn.Module]:
    name = type(workload).__name__
    if not isinstance(workload, NamesPieces):
        raise WorkloadError(
            f"parallelism: {name} names no pieces(model), so devices cannot share its model; "
            "add it to the class, or leave split and pipeline out"
        )
    pieces = list(workload.pieces(model))
    for piece in pieces:
        if not isinstance(piece, nn.Module):
            raise WorkloadError(
                f"parallelism: pieces(model) of {name} returned a {type(piece).__name__}; give "
                "torch.nn.Modules alone"
            )
    held = [id(each) for piece in pieces for each in values_of(piece)]
    if sorted(held) != sorted(map(id, values_of(model))):
        raise WorkloadError(
            f"parallelism: pieces(model) of {name} must put each parameter and buffer of the "
            f"model into exactly one piece; the model has {len(values_of(model))}, its pieces "
            f"have {len(held)}"
        )
    if len(pieces) < devices:
        raise WorkloadError(
            f"parallelism: pieces(model) of {name} returned {len(pieces)}, too few for {devices} "
            "devices; divide the model more finely, or take fewer devices"
        )
    return pieces


def _check_together(
    workload: TrainingWorkload,
    model: nn.Module,
    pieces: Sequence[nn.Module],
    inputs: Tensor,
    arithmetic: Arithmetic,
) -> None:
    name = type(workload).__name__
    passed: tuple[object, ...] = (inputs.clone(),)
    with torch.no_grad(), arithmetic.autocast():
        expected = model.eval()(inputs.clone())
        for number, piece in enumerate(pieces, start=1):
            try:
                passed = as_tuple(piece.eval()(*passed))
            except TypeError as error:
                raise WorkloadError(
                    f"parallelism: piece {number} of pieces(model) of {name} cannot take the "
                    f"{len(passed)} of the one before it: {error}"
                ) from error
            for each in passed:
                if not (isinstance(each, Tensor) and each.is_floating_point()):
                    what = (
                        f"tensor of {each.dtype}"
                        if isinstance(each, Tensor)
                        else type(each).__name__
                    )
                    raise WorkloadError(
                        f"parallelism: piece {number} of pieces(model) of {name} returned a "
                        f"{what}; "
                        "pieces must pass on floating-point tensors"
                    )
    for module in (model, *pieces):
        module.train()
    found, *others = passed
    is_model = (
        not others
        and isinstance(found, Tensor)
        and found.shape == expected.shape
        and torch.allclose(found.float(), expected.float(), rtol=1e-2, atol=1e-3, equal_nan=True)
    )
    if not is_model:
        raise WorkloadError(
            f"parallelism: the pieces(model) of {name}, one after the other, give another output "
            "than its model; each must take what the one before it returns, and nothing of "
            "forward may be left out"
        )


def seconds_of(pieces: Sequence[nn.Module], inputs: Tensor, arithmetic: Arithmetic) -> list[float]:
    """What the forward and backward pass of each piece takes on the inputs' device; copies are
    timed.

    Counted operations are no substitute: on an H200 the first quarter of those of a U-Net took a
    third of the time.
    """
    device, found = inputs.device, []
    taken: list[Tensor] = [inputs]
    for piece in map(copy.deepcopy, pieces):
        times = []
        for _ in range(1 + _TIMED_PASSES):
            synchronize(device)
            began = time.perf_counter()
            with arithmetic.autocast():
                # Clones, since a piece may begin with what changes its input in place.
                given = as_tuple(piece(*(each.clone() for each in taken)))
            computed = [each for each in given if each.requires_grad]
            torch.autograd.backward(computed, [torch.ones_like(each) for each in computed])
            synchronize(device)
            times.append(time.perf_counter() - began)
        found.append(
            min(times[1:])
        )  # the first has what happens once, as the choice of an algorithm
        taken = [each.detach().requires_grad_() for each in given]
    return found


def sizes_of_stages(seconds: Sequence[float], devices: int) -> list[int]:
    """How many of the consecutive pieces, which take these times, each stage gets: the longest
    stage is shortest.
    """
    until = [0.0, *accumulate(seconds)]

    @cache
    def best(begin: int, stages: int) -> tuple[float, list[int]]:
        if stages == 1:
            return until[-1] - until[begin], [len(seconds) - begin]
        found = []
        for end in range(begin + 1, len(seconds) - stages + 2):
            longest, others = best(end, stages - 1)
            found.append((max(until[end] - until[begin], longest), [end - begin, *others]))
        return min(found)

    return best(0, devices)[1]


def values_of(model: nn.Module) -> list[Tensor]:
    """Its parameters and buffers."""
    return [*model.parameters(), *model.buffers()]


def as_tuple(found: Any) -> tuple[Any, ...]:
    """What a piece returned, which may be one tensor or several."""
    return tuple(found) if isinstance(found, tuple | list) else (found,)
