"""The loops that fit a line by gradient descent, from PyTorch's eager steps to a single kernel for
all of them.

Problem (points, initial values, learning rate, epochs) -> LineLoop.prepare -> train() -> Trained
(parameters, losses)

All do the same: full batches, the mean squared error, SGD without momentum, float32. None waits for
the device at its end, so timing one takes a synchronization.
"""

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from gpu_report.study.options import NO_OPTIONS
from gpu_report.workloads.linear_regression.building import NoCompilerError, cpu_loops, cuda_loops

WEIGHT: Final = 0.83
BIAS: Final = 0.7645
LEARNING_RATE: Final = 0.01
EPOCHS: Final = 200


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Points (x, y), both float32 of one dimension on one device, and how to train."""

    x: Tensor
    y: Tensor
    weight: float = WEIGHT
    bias: float = BIAS
    learning_rate: float = LEARNING_RATE
    epochs: int = EPOCHS
    phase: "Callable[[str], AbstractContextManager[object]]" = nullcontext
    """Labels the phases of an eager step for a profiler: forward, loss, backward, optimizer."""


class Trained(NamedTuple):
    """Weight and bias after training, and the loss before the update of each epoch, on the device
    of the points.
    """

    parameters: Tensor
    losses: Tensor


Train = Callable[[], Trained]
"""Trains from the beginning, all epochs; calling it again trains the same again."""


@dataclass(frozen=True, kw_only=True)
class LineLoop:
    """One way to train; `prepare` compiles, captures and builds what it needs, so that its result
    can be timed.

    `prepare` raises `building.NoCompilerError` with the reason where this machine cannot run it.
    """

    prepare: Callable[[Problem], Train]
    device_types: tuple[str, ...]
    bytes_of_epoch: Callable[[Problem], float] | None
    """What an epoch reads and writes at least, in memory or caches; None to count those of
    PyTorch's operators.
    """
    reads_points_once: bool = False
    """Whether sums over the points, computed once, serve all epochs."""
    is_made_by_each_process: bool = False
    """Whether every process compiles or captures it again."""

    def flops_of_epoch(self, problem: Problem) -> float:
        """Floating-point operations of an epoch, a multiply-add counting as two."""
        flops = _FLOPS_PER_POINT * problem.x.numel()
        return flops / problem.epochs if self.reads_points_once else flops


class EagerLine(nn.Module):
    """A linear layer, autograd and SGD, operator by operator, and the step of one epoch."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1, device=problem.x.device)
        self.problem = problem
        self.inputs, self.targets = problem.x.unsqueeze(1), problem.y.unsqueeze(1)
        self.loss = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=problem.learning_rate)

    @torch.no_grad()
    def begin(self) -> None:
        self.layer.weight.fill_(self.problem.weight)
        self.layer.bias.fill_(self.problem.bias)

    def step(self) -> Tensor:
        phase = self.problem.phase
        with phase("forward"):
            predicted = self.layer(self.inputs)
        with phase("loss"):
            loss: Tensor = self.loss(predicted, self.targets)
        with phase("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with phase("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return loss.detach().clone()  # the memory of one number is that of an error for each point

    def parameters_now(self) -> Tensor:
        return torch.cat([self.layer.weight.detach().reshape(1), self.layer.bias.detach()])


def _eager(problem: Problem) -> Train:
    line = EagerLine(problem)

    def train() -> Trained:
        line.begin()
        losses = torch.stack([line.step() for _ in range(problem.epochs)])
        return Trained(parameters=line.parameters_now(), losses=losses)

    return train


def _compiled(problem: Problem) -> Train:
    """Forward, loss, gradient and update of an epoch as one graph, which the compiler fuses; each
    size for itself.
    """
    torch.compiler.reset()  # after a few sizes it would go on uncompiled
    step = torch.compile(_whole_step, dynamic=False, fullgraph=True)
    initial = torch.tensor([problem.weight, problem.bias], device=problem.x.device)
    parameters = initial.clone()

    def train() -> Trained:
        parameters.copy_(initial)
        losses = [
            step(parameters, problem.x, problem.y, problem.learning_rate)
            for _ in range(problem.epochs)
        ]
        return Trained(parameters=parameters.clone(), losses=torch.stack(losses))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")  # float32 is meant
        train()
    return train


def _whole_step(parameters: Tensor, x: Tensor, y: Tensor, learning_rate: float) -> Tensor:
    def loss_of(parameters: Tensor) -> Tensor:
        return nn.functional.mse_loss(parameters[0] * x + parameters[1], y)

    gradient: Tensor
    loss: Tensor
    gradient, loss = torch.func.grad_and_value(loss_of)(parameters)
    parameters.sub_(learning_rate * gradient)
    return loss


def _graphed(problem: Problem) -> Train:
    """The eager step, captured once and replayed once an epoch."""
    line, loss = EagerLine(problem), torch.empty(problem.epochs, device=problem.x.device)
    line.begin()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            line.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = line.step()

    def train() -> Trained:
        line.begin()
        for epoch in range(problem.epochs):
            graph.replay()
            loss[epoch].copy_(captured)
        return Trained(parameters=line.parameters_now(), losses=loss.clone())

    return train


def _triton(problem: Problem) -> Train:
    try:
        from gpu_report.workloads.linear_regression import triton_step
    except ImportError as error:
        raise NoCompilerError("no Triton") from error
    blocks = 8 * _multiprocessors(problem.x)
    initial = torch.tensor([problem.weight, problem.bias], device=problem.x.device)

    def train() -> Trained:
        parameters = initial.clone()
        losses = triton_step.train(
            problem.x,
            problem.y,
            parameters,
            problem.learning_rate,
            epochs=problem.epochs,
            blocks=blocks,
        )
        return Trained(parameters=parameters, losses=losses)

    train()  # compiles for the first epoch, the second and all others
    return train


def _cpp(problem: Problem) -> Train:
    fused = cpu_loops().fused
    return lambda: Trained(*fused(*_arguments(problem)))


def cuda_loop(
    name: str,
    *,
    blocks_per_multiprocessor: int,
    bytes_of_epoch: Callable[[Problem], float],
    reads_points_once: bool = False,
) -> LineLoop:
    """A loop in CUDA C++, with a grid of this many blocks for each multiprocessor."""

    def prepare(problem: Problem) -> Train:
        train = getattr(cuda_loops(), name)
        blocks = blocks_per_multiprocessor * _multiprocessors(problem.x)
        return lambda: Trained(*train(*_arguments(problem), blocks))

    return LineLoop(
        prepare=prepare,
        device_types=("cuda",),
        bytes_of_epoch=bytes_of_epoch,
        reads_points_once=reads_points_once,
    )


def _arguments(problem: Problem) -> tuple[Tensor, Tensor, float, float, float, int]:
    return (
        problem.x,
        problem.y,
        problem.weight,
        problem.bias,
        problem.learning_rate,
        problem.epochs,
    )


def _multiprocessors(x: Tensor) -> int:
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count)


_BYTES_PER_POINT: Final = 8
"""x and y in float32."""

_FLOPS_PER_POINT: Final = 8
"""Two of the prediction, one of the error, five of the sums of error^2, error * x and error; or
three products and five sums of x, y, x^2, x * y and y^2.
"""

_BYTES_OF_SEPARATE: Final = 28
"""Forward: x, prediction; loss: prediction, y, error; gradient: error, x; four bytes each."""


def _read(problem: Problem) -> float:
    return _BYTES_PER_POINT * problem.x.numel()


def _read_unless_kept(problem: Problem) -> float:
    """What the chip keeps is read once, the rest in every epoch."""
    kept = min(cuda_loops().persistent_points_kept(_multiprocessors(problem.x)), problem.x.numel())
    return float(_BYTES_PER_POINT * (kept / problem.epochs + problem.x.numel() - kept))


LOOPS: Final[Mapping[str, LineLoop]] = {
    NO_OPTIONS: LineLoop(prepare=_eager, device_types=("cpu", "cuda"), bytes_of_epoch=None),
    "compile": LineLoop(
        prepare=_compiled,
        device_types=("cpu", "cuda"),
        bytes_of_epoch=_read,
        is_made_by_each_process=True,
    ),
    "graphs": LineLoop(
        prepare=_graphed, device_types=("cuda",), bytes_of_epoch=None, is_made_by_each_process=True
    ),
    "openmp": LineLoop(prepare=_cpp, device_types=("cpu",), bytes_of_epoch=_read),
    "triton": LineLoop(
        prepare=_triton, device_types=("cuda",), bytes_of_epoch=_read, is_made_by_each_process=True
    ),
    "separate": cuda_loop(
        "separate",
        blocks_per_multiprocessor=8,
        bytes_of_epoch=lambda problem: _BYTES_OF_SEPARATE * problem.x.numel(),
    ),
    "streams": cuda_loop("streams", blocks_per_multiprocessor=8, bytes_of_epoch=_read),
    "fusedstep": cuda_loop("fusedstep", blocks_per_multiprocessor=2, bytes_of_epoch=_read),
    "sharedsums": cuda_loop("sharedsums", blocks_per_multiprocessor=2, bytes_of_epoch=_read),
    "persistent": cuda_loop(
        "persistent", blocks_per_multiprocessor=1, bytes_of_epoch=_read_unless_kept
    ),
    "statistics": cuda_loop(
        "statistics",
        blocks_per_multiprocessor=4,
        bytes_of_epoch=lambda problem: _read(problem) / problem.epochs,
        reads_points_once=True,
    ),
}
"""By the name of its option (gpu_report.study.options describes each), each beside the one that it
improves on.
"""
