"""The rungs of one training: a line fitted by gradient descent, from PyTorch's plain loop to a single kernel.

Problem (points, where to begin, learning rate, epochs) -> rung's train -> Trained (weight, bias, loss of each epoch)

All do the same: full batches, the mean squared error, plain SGD, float32. Nothing waits for the device, so that whoever
times a rung synchronizes.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from gpu_report.kernels.building import cpu_rungs, cuda_rungs

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

    title: str
    prepare: Callable[[Problem], Train]
    device_types: tuple[str, ...]
    is_bound: bool = False
    """Whether it does without most of the work, and only shows how fast the others could at best be."""


class _Line(nn.Module):
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
        loss: Tensor = self.loss(self.layer(self.inputs), self.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def parameters_now(self) -> Tensor:
        return torch.cat([self.layer.weight.detach().reshape(1), self.layer.bias.detach()])


def _eager(problem: Problem) -> Train:
    line = _Line(problem)

    def train() -> Trained:
        line.begin()
        losses = torch.stack([line.step() for _ in range(problem.epochs)])
        return Trained(parameters=line.parameters_now(), losses=losses)

    return train


def _compiled(problem: Problem) -> Train:
    """Forward, loss, gradient and update of an epoch as one graph, which the compiler fuses; each size for itself."""
    torch.compiler.reset()  # after a few sizes it would go on uncompiled
    step = torch.compile(_whole_step, dynamic=False, fullgraph=True)
    parameters = torch.tensor([problem.weight, problem.bias], device=problem.x.device)

    def train() -> Trained:
        parameters.copy_(torch.tensor([problem.weight, problem.bias]))
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
    line, loss = _Line(problem), torch.empty(problem.epochs, device=problem.x.device)
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
    from gpu_report.kernels import triton_step

    blocks = 8 * _multiprocessors(problem.x)
    return lambda: _trained(triton_step.train(*_arguments(problem), blocks))


def _cpp(problem: Problem) -> Train:
    fused = cpu_rungs().fused
    return lambda: _trained(fused(*_arguments(problem)))


def cuda_rung(name: str, *, title: str, blocks_per_multiprocessor: int, is_bound: bool = False) -> Rung:
    """One of those in CUDA C++, with a grid of so many blocks for each multiprocessor."""

    def prepare(problem: Problem) -> Train:
        train = getattr(cuda_rungs(), name)
        blocks = blocks_per_multiprocessor * _multiprocessors(problem.x)
        return lambda: _trained(train(*_arguments(problem), blocks))

    return Rung(title=title, prepare=prepare, device_types=("cuda",), is_bound=is_bound)


def _arguments(problem: Problem) -> tuple[Tensor, Tensor, float, float, float, int]:
    return (problem.x, problem.y, problem.weight, problem.bias, problem.learning_rate, problem.epochs)


def _trained(parts: tuple[Tensor, Tensor]) -> Trained:
    parameters, losses = parts
    return Trained(parameters=parameters, losses=losses)


def _multiprocessors(x: Tensor) -> int:
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count)


RUNGS: Final[Mapping[str, Rung]] = {
    "eager": Rung(title="PyTorch, eager", prepare=_eager, device_types=("cpu", "cuda")),
    "compile": Rung(title="torch.compile of the whole step", prepare=_compiled, device_types=("cpu", "cuda")),
    "graph": Rung(title="CUDA graph of the eager step", prepare=_graphed, device_types=("cuda",)),
    "triton": Rung(title="Triton, fused step", prepare=_triton, device_types=("cuda",)),
    "openmp": Rung(title="C++ with OpenMP, fused", prepare=_cpp, device_types=("cpu",)),
    "separate": cuda_rung("separate", title="CUDA, separate kernels", blocks_per_multiprocessor=8),
    "streams": cuda_rung("streams", title="CUDA, fused on four streams", blocks_per_multiprocessor=8),
    "fused": cuda_rung("fused", title="CUDA, fused", blocks_per_multiprocessor=2),
    "shared": cuda_rung("shared", title="CUDA, fused, sums in shared memory", blocks_per_multiprocessor=2),
    "persistent": cuda_rung("persistent", title="CUDA, one persistent kernel", blocks_per_multiprocessor=1),
    "statistics": cuda_rung(
        "statistics", title="bound: sufficient statistics", blocks_per_multiprocessor=4, is_bound=True
    ),
}
"""By name, each beside the one that it improves on."""
