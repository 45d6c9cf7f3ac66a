"""Measuring a step of a user's own, or of a built-in workload by its name, in this process, within
the seconds that they give: timed blocks, then a profile.

first steps -> how many steps a block has, and what time is kept for the profile -> blocks until
they have settled and enough is timed, by the rules of the study with a block for an epoch -> a
light profile of a few steps

name -> a study of one configuration, checked as any other -> build_training -> TrainingStep ->
StepRun

The first block with a new batch size, such as that of an epoch's smaller last batch, is not timed:
a study has such steps in its warm-up epoch.
"""

import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.profiler import record_function

from gpu_report.errors import ConfigError, GpuReportError, MachineError, ProfileError
from gpu_report.measure.arithmetic import why_not_computed
from gpu_report.measure.building import build_training, load_seeded, why_not_applied
from gpu_report.measure.memory import MemoryMeter
from gpu_report.measure.progress import load_between, read_cpu_times
from gpu_report.measure.run import MOST_LIGHT_PROFILES, profiler_warm_up_steps
from gpu_report.measure.threads import training_threads
from gpu_report.measure.timing import synchronize
from gpu_report.measure.training import is_enough, time_steps
from gpu_report.records.record import is_as_timed
from gpu_report.study.catalogue import ALIASES, BUILT_IN_WORKLOADS, WITH_PLAIN_STEPS
from gpu_report.study.machine import device_name
from gpu_report.study.options import Optimization
from gpu_report.study.single import single_study
from gpu_report.study.study import Measurement
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.user_training.arguments import require_positive, require_whole
from gpu_report.user_training.blocks import (
    RULES,
    Block,
    LightProfile,
    Measured,
    cpu_clock_of,
    first_timed,
    other_threads_s,
    steps_of_block,
)
from gpu_report.user_training.ranks import Ranks
from gpu_report.user_training.restoring import left_as_found, modules_within
from gpu_report.user_training.step_counts import BatchSizes
from gpu_report.user_training.workload import (
    EXPECTED,
    CalledStep,
    Loading,
    LossFunction,
    Step,
    TrainingStep,
    UserWorkload,
    chosen_device,
    in_one_line,
    require_parts,
    user_step,
)
from gpu_report.workloads.protocol import Phase

_BLOCKS_IN_ALL: Final = 12
"""Where the number of steps is limited: warm-up, those that are timed, and some for a profile that
is taken anew.
"""
_GROWTH: Final = 10
"""A block has at most as many times the steps of the longest before it."""
_LEAST_PROFILED_STEPS: Final = 2
_SLOWED: Final = 1.5
"""What a step under the profiler is expected to take at most, in timed ones."""
_STEPS_PER_EPOCH: Final = 8
_READING_S: Final = 1.0
_READING_SHARE: Final = 0.1
"""Kept for writing and reading the trace: a second and this part of all."""


def measure_own_step(
    model: Any,
    batch: Any,
    *,
    step: Callable[[], object] | None,
    loss: LossFunction | None,
    optimizer: Optimizer | None,
    loader: Iterable[Any] | None,
    device_name: str,
    began_s: float,
    seconds: float,
    samples: int | Callable[[Any], int] | None = None,
) -> Measured:
    """Measure what `gpu_report.profile` is given, which is left as it was found; `began_s` is on
    time.monotonic.

    Raises:
        ProfileError: a part is missing or of another kind, a step raises, or a loss cannot be used.
        MachineError: there is no such device.
    """
    deadline(began_s, seconds)
    ranks = Ranks.meet(patience_s=seconds)
    began_s = began_s if ranks.size == 1 else time.monotonic()
    with ranks.ending_together():
        if (model is None) == (step is None):
            given = "neither was" if model is None else "both were"
            raise ProfileError(
                f"model, step: {given} given; expected a model with a batch, or step= alone"
            )
        if step is not None and not callable(step):
            raise ProfileError(
                f"step: it is a {type(step).__name__}; expected a callable that trains one step"
            )
        beside = {"batch": batch, "loss": loss, "optimizer": optimizer, "loader": loader}
        unused = [name for name, part in beside.items() if part is not None]
        if step is not None and unused:
            raise ProfileError(
                f"{', '.join(unused)}: given beside step=; expected step= alone, which does it all "
                "itself"
            )
        if model is not None:
            require_parts(model, batch, loss=loss, optimizer=optimizer, loader=loader)
        if step is not None or not callable(samples):
            require_whole(samples=samples)
        device = chosen_device(device_name, model)
        modules = [each for each in (model, loss) if isinstance(each, nn.Module)]
        with left_as_found(
            modules, optimizer=optimizer, loader=loader, device=device, beside=modules_within(loss)
        ):
            measured = StepRun(
                CalledStep(step, samples=cast("int | None", samples))
                if step is not None
                else user_step(
                    UserWorkload(
                        lambda: model,
                        batch,
                        loss=loss,
                        build_optimizer=None if optimizer is None else lambda _: optimizer,
                        device=device,
                        samples=samples,
                        keeps_settings=True,
                    ),
                    batch,
                    loader=loader,
                    device=device,
                ),
                device=device,
                may_be_on_host=step is not None,
                loader_workers=getattr(loader, "num_workers", 0),
                deadline_s=deadline(began_s, seconds),
                ranks=ranks,
            ).measure()
        return replace(
            measured,
            loader_workers=getattr(loader, "num_workers", None),
            keeps_workers=getattr(loader, "persistent_workers", True),
        )


def measure_built_in(
    name: str, options: Mapping[str, Any], *, device: str, began_s: float, seconds: float
) -> Measured:
    """Measure what `gpu_report.profile` is given by name; this process is left as it was found.

    Args:
        name: That of the workload.
        options: Keys of a study's row, and `dataset`; None is not given.
        device: PyTorch's name, or `auto`.
        began_s: When the call began, on time.monotonic.
        seconds: From then on, at most.

    Raises:
        ConfigError: there is no such workload, or it has no such data set, size or precision.
        ProfileError: the batch size is missing, or several configurations are asked for.
        MachineError: there is no such device, or it cannot compute in the precision.
        WorkloadError: the data set holds less than a batch, or cannot be read.
    """
    deadline_s = deadline(began_s, seconds)
    epochs = options.get("epochs")
    row = {**options, "epochs": 1 if epochs is None else epochs}
    measurement, on = _measurement(name, row, device=device)
    with left_as_found([], optimizer=None, loader=None, device=on):
        step = _built(measurement, on)
        run = StepRun(
            step,
            device=on,
            may_be_on_host=False,
            loader_workers=measurement.variant.workers,
            deadline_s=deadline_s,
            most_steps=math.inf if epochs is None else epochs * len(step.training.train_loader),
        )
        return replace(run.measure(), loader_workers=measurement.variant.workers)


def built_in_step(
    name: str,
    *,
    samples: int | None,
    size: str | None,
    precision: str,
    device: str,
    optimization: Optimization,
) -> TrainingStep:
    """The step of a built-in workload, which may have more samples than its training set.

    With accumulation they are those of one of the batches whose gradients it adds up.

    Raises:
        ConfigError, ProfileError, MachineError, WorkloadError: as `measure_built_in`.
    """
    row = {
        "batch_size": samples and samples * optimization.accumulation,
        "size": size,
        "precision": precision,
        "epochs": 1,
        "optimization": optimization.name,
        "steps_per_epoch": _STEPS_PER_EPOCH,
    }
    measurement, on = _measurement(name, row, device=device)
    return _built(measurement, on)


def require_built_in(name: str) -> None:
    """Check the name of a workload whose steps are plain.

    Raises:
        ConfigError: there is none of it.
    """
    if name in WITH_PLAIN_STEPS or name in ALIASES:
        return
    why = (
        "trains on files or by loops of its own: measure it with gpu-report run"
        if name in BUILT_IN_WORKLOADS
        else "is unknown"
    )
    raise ConfigError(
        f"model: {name!r} {why}; use one of {', '.join(WITH_PLAIN_STEPS)}, or a model of your own, "
        "in a command for instance train:build_model"
    )


def _measurement(
    name: str,
    row: Mapping[str, Any],
    *,
    device: str,
) -> tuple[Measurement, torch.device]:
    require_built_in(name)
    if row.get("batch_size") is None:
        raise ProfileError(
            f"batch_size: none was given; expected the samples of a step of {name}, for instance 64"
        )
    name, size = ALIASES.get(name, (name, None))
    given = {
        **row,
        "size": row.get("size") or size,
        "device": None if device == "auto" else device,
    }
    dataset = given.pop("dataset", None)
    found = torch.accelerator.current_accelerator(check_available=True)
    accelerators = range(torch.accelerator.device_count()) if found else ()
    here = ["cpu", *(device_name(found.type, index) for index in accelerators if found)]
    study = single_study(name, given, devices=here, dataset=dataset)
    if len(study.variants) != 1:
        raise ProfileError(
            f"model: {len(study.variants)} configurations of {name} are asked for; expected one"
        )
    measurement = study.measurement(study.variants[0].slug)
    variant = measurement.variant
    on = chosen_device(variant.device, None)
    if reason := why_not_computed(variant.precision, on):
        raise MachineError(f"precision: {reason}")
    if why := why_not_applied(variant.options, variant.precision, on):
        raise MachineError(f"options: {why}")
    return measurement, on


def _built(measurement: Measurement, device: torch.device) -> TrainingStep:
    variant = measurement.variant
    workload = load_seeded(measurement, seed=variant.seed)
    training = build_training(
        workload, variant, device=device, seed=variant.seed, steps_per_epoch=variant.steps_per_epoch
    )
    torch.set_num_threads(training_threads(variant.device_type))
    training.model.train()
    return TrainingStep(training, loading=Loading(training.train_loader))


def deadline(began_s: float, seconds: float) -> float:
    """When the last step has to be over, on time.monotonic.

    Raises:
        ProfileError: the seconds are no positive number.
    """
    require_positive(seconds=seconds)
    return began_s + float(seconds) - min(_READING_S + _READING_SHARE * seconds, seconds / 2)


class StepRun:
    """Steps one after the other, numbered from 1, until `deadline_s` on time.monotonic, and no more
    than `most_steps`.

    Of a step that may be on the host the memory is that of the host, unless its first call takes
    some on the device. Without a profile there is always a second step, at whose backward pass the
    optimizer already has its state. The blocks of warm-up, the first three timed ones and a first
    profile may take until `least_until_s`, if that is later.
    """

    def __init__(
        self,
        step: Step,
        *,
        device: torch.device,
        may_be_on_host: bool,
        loader_workers: int,
        deadline_s: float,
        most_steps: float = math.inf,
        is_profiled: bool = True,
        least_until_s: float = -math.inf,
        ranks: Ranks | None = None,
    ) -> None:
        self._is_profiled, self._ranks = is_profiled, ranks or Ranks()
        self._step, self._device, self._may_be_on_host = step, device, may_be_on_host
        self._profiler_warm_up_steps = profiler_warm_up_steps(loader_workers)
        self._deadline_s, self._most_steps = deadline_s, most_steps
        self._least_until_s = max(deadline_s, least_until_s)
        self._memory = MemoryMeter(device)
        self._steps = 0
        self._sizes = BatchSizes()
        self._new_sizes = 0
        self._longest_block = 1
        self._steps_before = int(device.type != "cpu" and step.loading is not None)

    def measure(self) -> Measured:
        """Time blocks of steps and profile a few, as far as the time allows.

        Raises:
            ProfileError: a step raises, or its loss is not finite; the step's own exception is the
                cause.
        """
        self._memory.reset()
        held_mib, trained_on = self._memory.in_use_mib(), self._counted()
        step_ms = self._block(1).time_s * 1e3
        if self._may_be_on_host and self._memory.peak_mib() == held_mib:
            self._memory = MemoryMeter(torch.device("cpu"))
            self._memory.reset()
        if not self._is_profiled or self._all_fit(step_ms, 1 + self._steps_before):
            step_ms = self._block(1).time_s * 1e3
        block_steps = self._steps_of_block(step_ms)
        # The second step may have been far faster than those that follow, for instance while the
        # loader had batches.
        while self._ranks.decide(
            steps_of_block(step_ms) > block_steps == _GROWTH * self._longest_block
            and self._fits(block_steps * step_ms, block_steps + self._steps_before)
        ):
            step_ms = self._block(block_steps).step_ms
            block_steps = self._steps_of_block(step_ms)
        # The second step may have been slow, too; a single step is retried only if there is time
        # for many like it.
        needed = block_steps + self._steps_before if block_steps > 1 else _BLOCKS_IN_ALL
        if self._all_fit(needed * step_ms, needed):
            trial = self._block(block_steps)
            if trial.is_warm_up and self._all_fit(needed * trial.step_ms, needed):
                trial = self._block(block_steps)
            step_ms = trial.step_ms
            block_steps = self._steps_of_block(step_ms)
        elif self._least_until_s > self._deadline_s:
            block_steps = 1
        # The other ranks of this host are the training's, too.
        pids = [os.getppid()] if self._ranks.size > 1 else []
        before, others_s = read_cpu_times(pids), other_threads_s()
        blocks = self._blocks(block_steps, step_ms)
        after, others_s = read_cpu_times(pids), other_threads_s() - others_s
        measured = Measured.of_blocks(
            blocks,
            self._memory,
            block_steps=block_steps,
            step_ms=step_ms,
            device=str(self._device),
            samples=None,
            steps=self._steps,
            load=load_between(before, after),
            other_threads_share=max(others_s, 0.0) / (after.moment_s - before.moment_s),
            has_anomaly_mode=torch.is_anomaly_enabled(),
            may_be_on_host=self._may_be_on_host,
            rank=self._ranks.rank,
        )
        is_profiled = self._is_profiled and bool(measured.block_times_ms)
        profiled_ms, trace = self._profile(measured.step_ms) if is_profiled else ([], b"")
        is_counted = self._step.samples is not None
        return replace(
            measured,
            samples=(self._counted() - trained_on) / self._steps if is_counted else None,
            block_samples=measured.block_samples if is_counted else (),
            steps=self._steps,
            profiled_times_ms=profiled_ms,
            trace=trace,
        )

    def loss_after(self, steps: int) -> float:
        """Train these steps before all others and return the loss of the last; NaN of none.

        Raises:
            ProfileError: a step raises, or its loss is not finite.
        """
        with self._translated():
            losses = [self._once(self._take(nullcontext), phase=nullcontext) for _ in range(steps)]
            _require_finite(losses, 0)
            return next((each.item() for each in losses[-1:] if isinstance(each, Tensor)), math.nan)

    def _fits(self, time_ms: float, steps: int = 1, *, until_s: float | None = None) -> bool:
        until_s = self._deadline_s if until_s is None else until_s
        return (
            self._steps + steps <= self._most_steps and time.monotonic() + time_ms / 1e3 <= until_s
        )

    def _all_fit(self, time_ms: float, steps: int = 1) -> bool:
        return self._ranks.decide(self._fits(time_ms, steps))

    def _steps_of_block(self, step_ms: float) -> int:
        """As many as take long enough, or fewer where all blocks and a profile have to fit into
        `most_steps`.

        And not many times as many as a block has had: steps can get slower than the few that were
        timed.
        """
        kept = self._profiler_warm_up_steps + RULES.profile_steps
        most = (self._most_steps - kept) // _BLOCKS_IN_ALL - self._steps_before
        found = max(1, int(min(steps_of_block(step_ms), most, _GROWTH * self._longest_block)))
        return self._ranks.decide(found)

    def _profile_ms(self, step_ms: float, steps: int) -> float:
        return step_ms * _SLOWED * (self._profiler_warm_up_steps + steps) * self._is_profiled

    def _blocks(self, steps: int, step_ms: float) -> list[Block]:
        """Blocks of as many steps; time for the least profile is left."""
        blocks: list[Block] = []
        kept_ms = self._profile_ms(step_ms, _LEAST_PROFILED_STEPS)
        all_steps = steps + self._steps_before

        def another_fits() -> bool:
            times_s = [block.time_s for block in blocks]
            block_ms = max(times_s[-1:] or [steps * step_ms / 1e3]) * 1e3
            are_few = len(times_s) - first_timed(times_s)[0] < FEWEST_FOR_INTERVAL
            return not is_enough(times_s, RULES) and self._fits(
                block_ms * all_steps / steps + kept_ms,
                all_steps + self._profiler_warm_up_steps + _LEAST_PROFILED_STEPS,
                until_s=self._least_until_s if are_few else self._deadline_s,
            )

        while self._ranks.decide(another_fits()):
            block = self._block(steps)
            if block.steps < steps:
                break
            if not block.is_warm_up:
                blocks.append(block)
        return blocks

    def _block(self, steps: int) -> Block:
        """Time these steps, fewer where the time is over; with a loader and an accelerator an
        untimed one goes first, so the device is busy by then.

        Without it nothing would hide the first wait for the loader, which weighs more in a shorter
        block.
        """
        before = self._steps_before if self._steps else 0
        # Ranks train as many steps as they decided on.
        until_s = self._least_until_s if self._ranks.size == 1 else math.inf
        cpu_clock = cpu_clock_of(self._device)
        readings: list[tuple[float, int, int]] = []

        def read() -> None:
            loading_s = self._step.loading.cpu_s if self._step.loading is not None else 0.0
            readings.append((cpu_clock() - loading_s, self._counted(), self._new_sizes))

        def batches() -> Iterator[Any]:
            for number in range(before + steps):
                if number == before:
                    read()
                elif number > before and time.monotonic() >= until_s:
                    break
                yield self._take(nullcontext)
            read()

        with self._translated():
            timed = time_steps(
                partial(self._once, phase=nullcontext), batches(), devices=[self._device]
            )
            _require_finite(timed.losses, self._steps - len(timed.losses))
        done = len(timed.losses) - before
        self._longest_block = max(self._longest_block, done)
        cpu_s, trained_on, new_sizes = (
            after - first for first, after in zip(*readings, strict=True)
        )
        return Block(
            steps=done,
            time_s=timed.wall_time_s - sum(timed.step_times_ms[:before]) / 1e3,
            wait_s=sum(timed.data_wait_s[before:]) if self._step.loading is not None else math.nan,
            samples=trained_on,
            cpu_s=cpu_s,
            in_use_mib=self._memory.in_use_mib(),
            is_warm_up=self._ranks.decide(new_sizes > 0),
        )

    def _counted(self) -> int:
        return self._step.samples or 0

    def _take(self, phase: Phase) -> Any:
        trained_on = self._counted()
        batch = self._step.take(phase=phase)
        self._new_sizes += self._sizes.add(self._counted() - trained_on)
        return batch

    def _once(self, batch: Any, *, phase: Phase) -> object:
        self._steps += 1
        return self._step.once(batch, phase=phase)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the step raises, at once or when the device is waited for, as a ProfileError that
        names the part.
        """
        try:
            yield
        except (GpuReportError, torch.AcceleratorError):
            raise
        except Exception as error:
            synchronize(
                self._device
            )  # raises where the device has failed, which any part may notice
            part = self._step.part
            raise ProfileError(
                f"{part}: at step {self._steps} it raised {in_one_line(error)}; expected "
                f"{EXPECTED[part]}"
            ) from error

    def _profile(self, step_ms: float) -> tuple[list[float], bytes]:
        """Times of the profiled steps and their trace; taken anew if they are not as timed or have
        a new batch size.
        """
        times_ms: list[float] = []
        trace, new_sizes = b"", 0

        def steps_to_profile() -> int:
            if (
                times_ms
                and self._new_sizes == new_sizes
                and is_as_timed(statistics.median(times_ms) / step_ms)
            ):
                return 0
            fitting = (
                steps
                for steps in range(RULES.profile_steps, 0, -1)
                if self._fits(
                    self._profile_ms(step_ms, steps),
                    self._profiler_warm_up_steps + steps,
                    until_s=self._deadline_s if trace else self._least_until_s,
                )
            )
            return next(fitting, 0)

        for _ in range(MOST_LIGHT_PROFILES):
            steps = self._ranks.decide(steps_to_profile())
            if steps < _LEAST_PROFILED_STEPS:
                break
            new_sizes = self._new_sizes
            profile = LightProfile(
                self._device,
                steps=steps,
                warm_up_steps=self._profiler_warm_up_steps,
                run_id="gpu_report.profile",
            )
            with closing(profile):
                trace = b""
                while not trace:
                    with self._translated():
                        self._once(self._take(record_function), phase=record_function)
                        synchronize(self._device)
                    trace = profile.end_step()
            times_ms = profile.times_ms
        return times_ms, trace


def _require_finite(losses: Sequence[Any], before: int) -> None:
    """Of the losses that are tensors with one number, but for those that a graph's next replay has
    overwritten.

    Raises:
        ProfileError: one is not finite.
    """
    for number, loss in enumerate(losses, start=before + 1):
        if not (isinstance(loss, Tensor) and loss.numel() == 1):
            continue
        try:
            value = loss.item()
        except RuntimeError as error:
            if "CUDAGraphs" not in str(error):
                raise
            continue
        if not math.isfinite(value):
            raise ProfileError(
                f"loss: it was {value} at step {number}; expected a finite number: check the "
                "batch for NaN, or lower the learning rate"
            )
