"""A training by two processes with one half of the model each, through which the parts of a batch go one by one.

Imported where one is asked for only, since PyTorch's pipelines take 30 MiB of the host's memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from gpu_report.measure.arithmetic import Arithmetic
from gpu_report.measure.batches import Samples, example_batch
from gpu_report.measure.halves import Halves, as_tuple, values_of
from gpu_report.measure.world import World
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import Phase, TrainingWorkload

_STAGES: Final = 2


class Pipeline:
    """One of the two processes; rank 0 has the first half and takes inputs, rank 1 has the second and takes targets.

    Between steps a process keeps its own half alone on its device. The schedule is 1F1B: rank 0 keeps the activations
    of two parts at most, where GPipe keeps those of all in the same time. One part has no other to overlap with, and
    1F1B refuses it.
    """

    def __init__(
        self,
        halves: Halves,
        workload: TrainingWorkload,
        arithmetic: Arithmetic,
        variant: Variant,
        *,
        data: Samples,
        device: torch.device,
        layout: torch.memory_format,
        world: World,
    ) -> None:
        """`halves` are on the device; inputs will come from the data, in this layout."""
        both = halves.first, halves.second
        self._own, self._other = both[world.rank], both[1 - world.rank]
        self._world, self._device = world, device
        self._unknown = torch.full((), torch.nan, device=device)
        first, second = _First(halves.first, arithmetic, layout), _Second(halves.second, arithmetic, layout)
        parts = variant.accumulation
        # With shapes and types the schedule need not find them out by steps of its own.
        with torch.random.fork_rng(devices=[]):
            inputs, _ = example_batch(data, variant.batch_size // parts)
        part = inputs.to(device).contiguous(memory_format=layout)
        halves.eval()
        with torch.no_grad():
            between = first(part)
            output = second(*between)
        halves.train()
        passed = tuple(each.to("meta").requires_grad_() for each in between)
        stages = (first, part.to("meta"), passed), (second, passed, output.to("meta"))
        module, taken, given = stages[world.rank]
        self._stage = _Stage(module, world.rank, _STAGES, device, input_args=taken, output_args=given)
        schedule = Schedule1F1B if parts >= _STAGES else ScheduleGPipe
        # The part's share of the batch's mean is taken here, so gradients need not be scaled.
        self._schedule = schedule(
            self._stage,
            parts,
            loss_fn=lambda output, target: workload.loss(output.float(), target) / parts,
            scale_grads=False,
        )
        self._other.to("cpu")

    def add_gradients(self, inputs: Tensor, target: Tensor, *, phase: Phase = nullcontext) -> Tensor:
        """Forward and backward pass of a batch; returns its loss in rank 1, where it is known, and NaN in rank 0."""
        self._stage.phase = phase
        if self._world.rank == 0:
            self._schedule.step(inputs, return_outputs=False)
            return self._unknown
        losses: list[Tensor] = []
        self._schedule.step(target=target, losses=losses, return_outputs=False)
        return torch.stack(losses).detach().sum()

    @contextmanager
    def whole_model(self) -> Iterator[None]:
        """Inside, this device holds the other half too, as the other process has trained it.

        It then holds no gradients and no activations of a training, so that this is its memory's peak only where those
        of a part take less than the other half's weights.
        """
        trained = self._world.gather([value.detach().cpu() for value in values_of(self._own)])[1 - self._world.rank]
        with torch.no_grad():
            for value, theirs in zip(values_of(self._other), trained, strict=True):
                value.copy_(theirs)
        self._other.to(self._device)
        try:
            yield
        finally:
            self._other.to("cpu")


class _Half(nn.Module):
    """A half in the training's arithmetic.

    What is sent must be one piece of memory, of which the shape alone is known on the other side: images with channels
    last go as (samples, height, width, channels).
    """

    def __init__(self, module: nn.Module, arithmetic: Arithmetic, layout: torch.memory_format) -> None:
        super().__init__()
        self.module, self.autocast, self._layout = module, arithmetic.autocast, layout

    def is_moved(self, part: Tensor) -> bool:
        return self._layout == torch.channels_last and part.dim() == len("NCHW")


class _First(_Half):
    def forward(self, part: Tensor) -> tuple[Tensor, ...]:
        with self.autocast():
            found = as_tuple(self.module(part))
        return tuple((each.movedim(1, -1) if self.is_moved(each) else each).contiguous() for each in found)


class _Second(_Half):
    def forward(self, *between: Tensor) -> Tensor:
        with self.autocast():
            output: Tensor = self.module(*(each.movedim(-1, 1) if self.is_moved(each) else each for each in between))
        return output.contiguous()


class _Stage(PipelineStage):
    """Labels the passes of each part, and raises what a half raises, of which PyTorch would make another error."""

    phase: Phase = nullcontext

    def forward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        with self.phase("forward"):
            try:
                return super().forward_one_chunk(*args, **kwargs)
            except RuntimeError as error:
                raised = error.__cause__ or error
            raise raised

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        with self.phase("backward"):
            return super().backward_one_chunk(*args, **kwargs)
