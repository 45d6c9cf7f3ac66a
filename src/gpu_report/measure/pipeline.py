"""A training by processes with one stage of the model each, through which the parts of a batch go
one by one.

Imported where one is asked for only, since PyTorch's pipelines take 30 MiB of the host's memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from gpu_report.measure.arithmetic import Arithmetic
from gpu_report.measure.stages import Stages, as_tuple, values_of
from gpu_report.measure.world import World
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import Phase, TrainingWorkload


class Pipeline:
    """One of the processes; rank 0 has the first stage and takes inputs, the last rank has the last
    and takes targets.

    Between steps a process keeps its own stage alone on its device. The schedule is 1F1B: a rank
    keeps the activations of as many parts at most as there are stages from it on, where GPipe keeps
    those of all in the same time. 1F1B refuses fewer parts than stages.
    """

    def __init__(
        self,
        model: Stages,
        workload: TrainingWorkload,
        arithmetic: Arithmetic,
        variant: Variant,
        *,
        part: Tensor,
        layout: torch.memory_format,
        world: World,
    ) -> None:
        """`part` is the input of a part of a batch, in this layout, on the device where the model
        is.
        """
        self._stages, self._world, self._device = model.stages, world, part.device
        self._is_first, self._is_last = world.rank == 0, world.rank == world.size - 1
        self._unknown = torch.full((), torch.nan, device=part.device)
        parts = variant.accumulation
        computing = [
            _Computing(
                stage,
                arithmetic,
                layout,
                is_first=stage is self._stages[0],
                is_last=stage is self._stages[-1],
            )
            for stage in self._stages
        ]
        # With shapes and types the schedule need not find them out by steps of its own.
        passed: list[tuple[Tensor, ...]] = [(part,)]
        model.eval()
        with torch.no_grad():
            for stage in computing:
                passed.append(as_tuple(stage(*passed[-1])))
        model.train()
        taken, given = (
            tuple(each.to("meta").requires_grad_(0 < place < world.size) for each in passed[place])
            for place in (world.rank, world.rank + 1)
        )
        self._stage = _RankStage(
            computing[world.rank],
            world.rank,
            world.size,
            part.device,
            input_args=taken,
            output_args=given,
        )
        schedule = Schedule1F1B if parts >= world.size else ScheduleGPipe
        # The part's share of the batch's mean is taken here, so gradients need not be scaled.
        self._schedule = schedule(
            self._stage,
            parts,
            loss_fn=lambda output, target: workload.loss(output.float(), target) / parts,
            scale_grads=False,
        )
        self._keep_own()

    def add_gradients(
        self, inputs: Tensor, target: Tensor, *, phase: Phase = nullcontext
    ) -> Tensor:
        """Forward and backward pass of a batch; returns its loss in the last rank, where it is
        known, else NaN.
        """
        self._stage.phase = phase
        losses: list[Tensor] = []
        if self._is_last:
            self._schedule.step(target=target, losses=losses, return_outputs=False)
            return torch.stack(losses).detach().sum()
        self._schedule.step(*([inputs] if self._is_first else []), return_outputs=False)
        return self._unknown

    @contextmanager
    def whole_model(self) -> Iterator[None]:
        """Inside, this device holds the other stages too, as the other processes have trained them.

        It then holds no gradients and no activations of a training, so that this is its memory's
        peak only where those of a part take less than the other stages' weights.
        """
        own = self._stages[self._world.rank]
        trained = self._world.gather([value.detach().cpu() for value in values_of(own)])
        with torch.no_grad():
            for stage, values in zip(self._stages, trained, strict=True):
                if stage is own:
                    continue
                for value, theirs in zip(values_of(stage), values, strict=True):
                    value.copy_(theirs)
                stage.to(self._device)
        try:
            yield
        finally:
            self._keep_own()

    def _keep_own(self) -> None:
        for rank, stage in enumerate(self._stages):
            if rank != self._world.rank:
                stage.to("cpu")


class _Computing(nn.Module):
    """A stage in the training's arithmetic.

    What is sent must be one piece of memory, of which the shape alone is known on the other side:
    images with channels last go as (samples, height, width, channels).
    """

    def __init__(
        self,
        module: nn.Module,
        arithmetic: Arithmetic,
        layout: torch.memory_format,
        *,
        is_first: bool,
        is_last: bool,
    ) -> None:
        super().__init__()
        self.module, self.autocast, self._layout = module, arithmetic.autocast, layout
        self._is_first, self._is_last = is_first, is_last

    def forward(self, *taken: Tensor) -> Tensor | tuple[Tensor, ...]:
        with self.autocast():
            given = as_tuple(
                self.module(
                    *(taken if self._is_first else (self._moved(each, -1, 1) for each in taken))
                )
            )
        if self._is_last:
            output: Tensor = given[0]  # the loss takes it as it is
            return output.contiguous()
        return tuple(self._moved(each, 1, -1).contiguous() for each in given)

    def _moved(self, part: Tensor, source: int, destination: int) -> Tensor:
        is_image = self._layout == torch.channels_last and part.dim() == len("NCHW")
        return part.movedim(source, destination) if is_image else part


class _RankStage(PipelineStage):
    """Labels the passes of each part, and raises what a stage raises, of which PyTorch would make
    another error.
    """

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
