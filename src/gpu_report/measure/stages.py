"""A model in stages that follow each other, one for each device that shares it: made of the pieces of its workload."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.workloads.protocol import NamesPieces, TrainingWorkload, WorkloadError


class Stages(nn.Module):
    """All stages as one model, on whatever devices; its output comes back to the device of its inputs."""

    def __init__(self, stages: Sequence[nn.Module]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, inputs: Tensor) -> Tensor:
        passed: tuple[Tensor, ...] = (inputs,)
        for stage in self.stages:
            device = next(stage.parameters(), passed[0]).device
            passed = as_tuple(stage(*(each.to(device, non_blocking=True) for each in passed)))
        (output,) = passed
        return output.to(inputs.device, non_blocking=True)


class _Stage(nn.ModuleList):
    """Pieces, each of which takes what the one before it returned."""

    def forward(self, *taken: Tensor) -> tuple[Tensor, ...]:
        for piece in self:
            taken = as_tuple(piece(*taken))
        return taken


def stages_of(workload: TrainingWorkload, model: nn.Module, count: int, *, inputs: Tensor) -> Stages:
    """The model's pieces in so many stages that the one with the most operations has as few as it can have.

    Operations are counted in a forward pass of `inputs`, some samples on the model's device, which changes nothing.

    Raises:
        WorkloadError: the workload names no pieces or too few, or a parameter is in none or in several of them.
    """
    name = type(workload).__name__
    if not isinstance(workload, NamesPieces):
        raise WorkloadError(
            f"parallelism: {name} names no pieces(model), so devices cannot share its model; "
            "add it to the class, or leave split and pipeline out"
        )
    pieces = list(workload.pieces(model))
    held = [id(each) for piece in pieces for each in values_of(piece)]
    if sorted(held) != sorted(map(id, values_of(model))):
        raise WorkloadError(
            f"parallelism: pieces(model) of {name} must put each parameter and buffer of the model into exactly one "
            f"piece; the model has {len(values_of(model))}, its pieces have {len(held)}"
        )
    if len(pieces) < count:
        raise WorkloadError(
            f"parallelism: pieces(model) of {name} returned {len(pieces)}, too few for {count} devices; "
            "divide the model more finely, or take fewer devices"
        )
    ends = [0, *_cuts(_operations(pieces, inputs), count), len(pieces)]
    return Stages([_Stage(pieces[begin:end]) for begin, end in pairwise(ends)])


def values_of(model: nn.Module) -> list[Tensor]:
    """Its parameters and buffers."""
    return [*model.parameters(), *model.buffers()]


def as_tuple(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a piece returned, which may be one tensor or several."""
    return (found,) if isinstance(found, Tensor) else tuple(found)


@torch.no_grad()
def _operations(pieces: Sequence[nn.Module], inputs: Tensor) -> list[int]:
    """Floating-point operations of each piece, and one more, so that pieces of which none is counted weigh alike."""
    passed: tuple[Tensor, ...] = (inputs,)
    found = []
    for piece in pieces:
        piece.eval()
        with FlopCounterMode(display=False) as counter:
            passed = as_tuple(piece(*passed))
        piece.train()
        found.append(1 + counter.get_total_flops())
    return found


def _cuts(weights: Sequence[int], count: int) -> tuple[int, ...]:
    """Where `count` runs of consecutive weights begin, the first left out, so that the largest sum is the least."""

    @cache
    def best(begin: int, count: int) -> tuple[int, tuple[int, ...]]:
        if count == 1:
            return sum(weights[begin:]), ()
        found = []
        for cut in range(begin + 1, len(weights) - count + 2):
            largest, others = best(cut, count - 1)
            found.append((max(sum(weights[begin:cut]), largest), (cut, *others)))
        return min(found)

    return best(0, count)[1]
