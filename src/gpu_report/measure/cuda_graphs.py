"""CUDA graphs of whole training steps, and undoing the steps that compiling and capturing take.

CapturedSteps: capture -> replay; restored: weights, optimizer and random numbers as they were
before
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gpu_report.measure.nested import Part
from gpu_report.measure.random_numbers import keep_random_numbers
from gpu_report.workloads.protocol import WorkloadError

Step = Callable[[Part, Part], Tensor]
"""One step of training on inputs and targets on the device; returns the loss."""

_WARM_UP_STEPS: Final = 3
"""Before a capture, on its stream:
https://docs.pytorch.org/docs/stable/notes/cuda.html#whole-network-capture
"""
_DDP_WARM_UP_STEPS: Final = 11
"""DistributedDataParallel's, which looks at its first steps: #usage-with-distributeddataparallel of
the same page.
"""


@dataclass(frozen=True, kw_only=True)
class _CapturedStep:
    graph: torch.cuda.CUDAGraph
    inputs: Part
    target: Part
    loss: Tensor


class CapturedSteps:
    """Whole training steps as CUDA graphs, one per shape of the inputs, in memory that they
    share.
    """

    def __init__(self, device: torch.device, *, averages_gradients: bool = False) -> None:
        self._by_shape: dict[tuple[Any, ...], _CapturedStep] = {}
        self._warm_up_steps = _DDP_WARM_UP_STEPS if averages_gradients else _WARM_UP_STEPS
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def on_its_stream(self) -> Iterator[None]:
        """Inside, work goes to the stream of the capture, after earlier and before later work of
        the current stream.
        """
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            yield
        current.wait_stream(self.stream)

    def capture(self, step: Step, inputs: Part, target: Part) -> None:
        """Warm up and capture a step on batches of this shape; weights and optimizer are changed by
        the warm-up.
        """
        inputs, target = inputs.clone(), target.clone()
        with self.on_its_stream():
            for _ in range(self._warm_up_steps):
                step(inputs, target)
        graph = torch.cuda.CUDAGraph()
        # Threads that pin a loader's batches may go on meanwhile.
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self.stream, capture_error_mode="thread_local"
        ):
            loss = step(inputs, target)
        self._by_shape[inputs.shape] = _CapturedStep(
            graph=graph, inputs=inputs, target=target, loss=loss
        )

    def replay(self, inputs: Part, target: Part) -> Tensor:
        """Launch the step that was captured for this shape.

        Raises:
            WorkloadError: none was captured for it.
        """
        captured = self._by_shape.get(inputs.shape)
        if captured is None or captured.target.shape != target.shape:
            shapes = ", ".join(str(tuple(shape)) for shape in self._by_shape)
            raise WorkloadError(
                f"options: graphs were captured for inputs of {shapes}, a batch has "
                f"{tuple(inputs.shape)}; "
                "let all samples have one shape, or leave graphs out"
            )
        captured.inputs.copy_(inputs)
        captured.target.copy_(target)
        captured.graph.replay()
        return captured.loss.clone()


@contextmanager
def restored(model: nn.Module, optimizer: Optimizer, device: torch.device) -> Iterator[None]:
    """Restores weights, buffers, the optimizer's state and random numbers afterwards, in the memory
    where they are.

    State that the optimizer created inside becomes zeros. The copies are in host memory, so that
    they do not raise the peak of the device's memory.
    """
    tensors = [*model.parameters(), *model.buffers(), *state_tensors(optimizer)]
    kept = [tensor.detach().to("cpu", copy=True) for tensor in tensors]
    known = {id(tensor) for tensor in tensors}
    with keep_random_numbers(device):
        yield
    with torch.no_grad():
        for tensor, value in zip(tensors, kept, strict=True):
            tensor.copy_(value)
        for tensor in state_tensors(optimizer):
            if id(tensor) not in known:
                tensor.zero_()


def state_tensors(optimizer: Optimizer) -> list[Tensor]:
    """What it keeps of each parameter."""
    return [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    ]
