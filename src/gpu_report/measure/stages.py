"""A model in stages that follow each other, one for each device that shares it: made of the pieces of its workload."""

import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Final

import torch
from torch import Tensor, nn

from gpu_report.measure.arithmetic import Arithmetic
from gpu_report.measure.timing import synchronize
from gpu_report.workloads.protocol import NamesPieces, TrainingWorkload, WorkloadError

_TIMED_PASSES: Final = 3


class Stages(nn.Module):
    """All stages as one model, on whatever devices; its output comes back to the device of its inputs."""

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, inputs: Tensor) -> Tensor:
        passed: tuple[Tensor, ...] = (inputs,)
        for stage in self.stages:
            device = next(iter(values_of(stage)), passed[0]).device
            passed = as_tuple(stage(*(each.to(device, non_blocking=True) for each in passed)))
        (output,) = passed
        return output.to(inputs.device, non_blocking=True)


class _Stage(nn.ModuleList):
    """Pieces, each of which takes what the one before it returned."""

    def forward(self, *taken: Tensor) -> tuple[Tensor, ...]:
        for piece in self:
            taken = as_tuple(piece(*taken))
        return taken


def pieces_of(workload: TrainingWorkload, model: nn.Module, *, devices: int) -> list[nn.Module]:
    """The pieces of the model that its workload names.

    Raises:
        WorkloadError: it names none, too few, or what is no module; or a parameter is not in exactly one of them.
    """
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
                f"parallelism: pieces(model) of {name} returned a {type(piece).__name__}; give torch.nn.Modules alone"
            )
    held = [id(each) for piece in pieces for each in values_of(piece)]
    if sorted(held) != sorted(map(id, values_of(model))):
        raise WorkloadError(
            f"parallelism: pieces(model) of {name} must put each parameter and buffer of the model into exactly one "
            f"piece; the model has {len(values_of(model))}, its pieces have {len(held)}"
        )
    if len(pieces) < devices:
        raise WorkloadError(
            f"parallelism: pieces(model) of {name} returned {len(pieces)}, too few for {devices} devices; "
            "divide the model more finely, or take fewer devices"
        )
    return pieces


def check_pieces(
    workload: TrainingWorkload, model: nn.Module, pieces: Sequence[nn.Module], inputs: Tensor, arithmetic: Arithmetic
) -> None:
    """Refuse pieces which one after the other are not the model.

    Raises:
        WorkloadError: they give another output for the inputs, or one passes on what can have no gradient.
    """
    name = type(workload).__name__
    passed: tuple[Tensor, ...] = (inputs,)
    with torch.no_grad(), arithmetic.autocast():
        expected = model.eval()(inputs)
        for number, piece in enumerate(pieces, start=1):
            passed = as_tuple(piece.eval()(*passed))
            other = next((each.dtype for each in passed if not each.is_floating_point()), None)
            if other is not None:
                raise WorkloadError(
                    f"parallelism: piece {number} of pieces(model) of {name} returned a tensor of {other}; "
                    "pieces must pass on floating-point tensors"
                )
            piece.train()
    model.train()
    found, *others = passed
    if others or found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-2, atol=1e-3):
        raise WorkloadError(
            f"parallelism: the pieces(model) of {name}, one after the other, give another output than its model; "
            "each must take what the one before it returns, and nothing of forward may be left out"
        )


def seconds_of(pieces: Sequence[nn.Module], inputs: Tensor, arithmetic: Arithmetic) -> list[float]:
    """What the forward and backward pass of each piece takes on the inputs' device; the pieces stay as they are.

    Operations would tell less: on an H200 the first quarter of a U-Net's took a third of the time.
    """
    device, found = inputs.device, []
    taken: list[Tensor] = [inputs]
    for piece in pieces:
        kept = [(buffer, buffer.clone()) for buffer in piece.buffers()]
        times = []
        for _ in range(1 + _TIMED_PASSES):
            synchronize(device)
            began = time.perf_counter()
            with arithmetic.autocast():
                # Copies, since a piece may begin with what changes its input in place.
                given = as_tuple(piece(*(each.clone() for each in taken)))
            computed = [each for each in given if each.requires_grad]
            torch.autograd.backward(computed, [torch.ones_like(each) for each in computed])
            synchronize(device)
            times.append(time.perf_counter() - began)
        found.append(min(times[1:]))  # the first has what happens once, as the choice of an algorithm
        for parameter in piece.parameters():
            parameter.grad = None
        with torch.no_grad():
            for buffer, value in kept:
                buffer.copy_(value)
        taken = [each.detach().requires_grad_() for each in given]
    return found


def divided(pieces: Sequence[nn.Module], seconds: Sequence[float], *, devices: int) -> Stages:
    """The pieces in as many stages as there are devices; the longest time of a stage is as short as it can be."""
    ends = [0, *_cuts(seconds, devices), len(pieces)]
    return Stages([_Stage(pieces[begin:end]) for begin, end in pairwise(ends)])


def values_of(model: nn.Module) -> list[Tensor]:
    """Its parameters and buffers."""
    return [*model.parameters(), *model.buffers()]


def as_tuple(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a piece returned, which may be one tensor or several."""
    return (found,) if isinstance(found, Tensor) else tuple(found)


def _cuts(weights: Sequence[float], count: int) -> tuple[int, ...]:
    """Where `count` runs of consecutive weights begin, the first left out, so that the largest sum is the least."""
    until = [0.0, *accumulate(weights)]

    @cache
    def best(begin: int, count: int) -> tuple[float, tuple[int, ...]]:
        if count == 1:
            return until[-1] - until[begin], ()
        found = []
        for cut in range(begin + 1, len(weights) - count + 2):
            largest, others = best(cut, count - 1)
            found.append((max(until[cut] - until[begin], largest), (cut, *others)))
        return min(found)

    return best(0, count)[1]
