"""The rungs of one training: a line fitted by gradient descent, from PyTorch's plain loop to a single kernel.

Problem (points, where to begin, learning rate, epochs) -> Rung.prepare -> train() -> Trained (parameters, losses)

All do the same: full batches, the mean squared error, plain SGD, float32. None waits for the device at its end, so that
whoever times a rung synchronizes.
"""

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from gpu_report.kernels.building import NoCompilerError, cpu_rungs, cuda_rungs
from gpu_report.options import NO_OPTIONS

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
    """Names what the plain loop does, for a profiler: forward, loss, backward, optimizer."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What was learnt, on the device of the points: weight and bias, and the loss before the update of each epoch."""

    parameters: Tensor
    losses: Tensor


Train = Callable[[], Trained]
"""Trains from the beginning, all epochs; calling it again trains the same again."""


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One way to train; `prepare` compiles, captures and builds what it needs, so that its result can be timed.

    `prepare` raises `building.NoCompilerError` with the reason where this machine cannot run it.
    """

    prepare: Callable[[Problem], Train]
    device_types: tuple[str, ...]
    bytes_of_epoch: Callable[[Problem], float] | None
    """What an epoch reads and writes at least, wherever it lies; None where PyTorch's operators are to be asked."""
    is_reckoned_once: bool = False
    """Whether what it reckons of the points serves all epochs."""
    is_made_by_each_process: bool = False
    """Whether `prepare` compiles or captures in every process anew."""


class PlainLine(nn.Module):
    """PyTorch's own way: a linear layer, autograd and SGD, and the step of one epoch."""

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
    line = PlainLine(problem)

    def train() -> Trained:
        line.begin()
        losses = torch.stack([line.step() for _ in range(problem.epochs)])
        return Trained(parameters=line.parameters_now(), losses=losses)

    return train


def _compiled(problem: Problem) -> Train:
    """Forward, loss, gradient and update of an epoch as one graph, which the compiler fuses; each size for itself."""
    torch.compiler.reset()  # after a few sizes it would go on uncompiled
    step = torch.compile(_whole_step, dynamic=False, fullgraph=True)
    initial = torch.tensor([problem.weight, problem.bias], device=problem.x.device)
    parameters = initial.clone()

    def train() -> Trained:
        parameters.copy_(initial)
        losses = [step(parameters, problem.x, problem.y, problem.learning_rate) for _ in range(problem.epochs)]
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
    """The plain step, captured once and replayed once an epoch."""
    line, loss = PlainLine(problem), torch.empty(problem.epochs, device=problem.x.device)
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
        from gpu_report.kernels import triton_step
    except ImportError as error:
        raise NoCompilerError("no Triton") from error
    blocks = 8 * _multiprocessors(problem.x)
    initial = torch.tensor([problem.weight, problem.bias], device=problem.x.device)

    def train() -> Trained:
        parameters = initial.clone()
        losses = triton_step.train(
            problem.x, problem.y, parameters, problem.learning_rate, epochs=problem.epochs, blocks=blocks
        )
        return Trained(parameters=parameters, losses=losses)

    train()  # compiles for the first epoch, the second and all others
    return train


def _cpp(problem: Problem) -> Train:
    fused = cpu_rungs().fused
    return lambda: _trained(fused(*_arguments(problem)))


def cuda_rung(
    name: str,
    *,
    blocks_per_multiprocessor: int,
    bytes_of_epoch: Callable[[Problem], float],
    is_reckoned_once: bool = False,
) -> Rung:
    """One of those in CUDA C++, with a grid of so many blocks for each multiprocessor."""

    def prepare(problem: Problem) -> Train:
        train = getattr(cuda_rungs(), name)
        blocks = blocks_per_multiprocessor * _multiprocessors(problem.x)
        return lambda: _trained(train(*_arguments(problem), blocks))

    return Rung(
        prepare=prepare,
        device_types=("cuda",),
        bytes_of_epoch=bytes_of_epoch,
        is_reckoned_once=is_reckoned_once,
    )


def _arguments(problem: Problem) -> tuple[Tensor, Tensor, float, float, float, int]:
    return (problem.x, problem.y, problem.weight, problem.bias, problem.learning_rate, problem.epochs)


def _trained(parts: tuple[Tensor, Tensor]) -> Trained:
    parameters, losses = parts
    return Trained(parameters=parameters, losses=losses)


def _multiprocessors(x: Tensor) -> int:
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count)


_BYTES_OF_POINT: Final = 8
"""x and y in float32."""

_FLOPS_OF_POINT: Final = 8
"""Two of the prediction, one of the error, five of the sums of error^2, error * x and error; or three products and five
sums of x, y, x^2, x * y and y^2."""

_BYTES_OF_SEPARATE: Final = 28
"""Forward: x, prediction; loss: prediction, y, error; gradient: error, x; four bytes each."""


def flops_of_epoch(rung: Rung, problem: Problem) -> float:
    """Floating-point operations of an epoch, a multiply-add counting as two."""
    flops = _FLOPS_OF_POINT * problem.x.numel()
    return flops / problem.epochs if rung.is_reckoned_once else flops


def _read(problem: Problem) -> float:
    return _BYTES_OF_POINT * problem.x.numel()


def _read_once(problem: Problem) -> float:
    return _read(problem) / problem.epochs


def _read_unless_kept(problem: Problem) -> float:
    """What the chip keeps is read once, the rest in every epoch."""
    kept = min(cuda_rungs().persistent_points_kept(_multiprocessors(problem.x)), problem.x.numel())
    return float(_BYTES_OF_POINT * (kept / problem.epochs + problem.x.numel() - kept))


def _read_and_written_apart(problem: Problem) -> float:
    return _BYTES_OF_SEPARATE * problem.x.numel()


RUNGS: Final[Mapping[str, Rung]] = {
    NO_OPTIONS: Rung(prepare=_eager, device_types=("cpu", "cuda"), bytes_of_epoch=None),
    "compile": Rung(
        prepare=_compiled, device_types=("cpu", "cuda"), bytes_of_epoch=_read, is_made_by_each_process=True
    ),
    "graphs": Rung(prepare=_graphed, device_types=("cuda",), bytes_of_epoch=None, is_made_by_each_process=True),
    "openmp": Rung(prepare=_cpp, device_types=("cpu",), bytes_of_epoch=_read),
    "triton": Rung(prepare=_triton, device_types=("cuda",), bytes_of_epoch=_read, is_made_by_each_process=True),
    "separate": cuda_rung("separate", blocks_per_multiprocessor=8, bytes_of_epoch=_read_and_written_apart),
    "streams": cuda_rung("streams", blocks_per_multiprocessor=8, bytes_of_epoch=_read),
    "fusedstep": cuda_rung("fusedstep", blocks_per_multiprocessor=2, bytes_of_epoch=_read),
    "sharedsums": cuda_rung("sharedsums", blocks_per_multiprocessor=2, bytes_of_epoch=_read),
    "persistent": cuda_rung("persistent", blocks_per_multiprocessor=1, bytes_of_epoch=_read_unless_kept),
    "statistics": cuda_rung(
        "statistics", blocks_per_multiprocessor=4, bytes_of_epoch=_read_once, is_reckoned_once=True
    ),
}
"""By the name of its option (gpu_report.options says what each is), each beside the one that it improves on."""
