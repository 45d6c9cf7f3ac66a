"""The profiled run: a few training steps under PyTorch's profiler, the traces they leave, and what
a step takes.

Two profiles, one after the other in the same process:

- light: operations and the device's work alone, without those of the loader in this process (half
  of a small model's) and without the number that the driver receives with each operation. Times,
  idle causes and launches come from it.
- rich: all of that, shapes, stacks and memory, which makes a host-driven step twice as long.
  Shapes, memory by operation and source lines come from its trace, and no time of the host. A
  custom training loop is profiled without stacks: each of its steps is the same few lines, and to
  write them all takes seconds.

`python -m benchmarks.profile_overhead` shows what each of these costs.

The steps are those of the timed loop, with the names of their phases (data, forward, backward,
optimizer) in the trace, or one call of a custom training loop. The device is waited for after each,
so that the work of a step ends within the step that the trace shows; without the wait a step took
as long or longer (1.00 against 1.22 times a timed one, the same training).
"""

import gzip
import hashlib
import json
import os
import statistics
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch._C._autograd import _enable_record_function
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter

from gpu_report.errors import FileWriteError
from gpu_report.measure.batches import Batch
from gpu_report.measure.memory import forget_allocations, snapshot_memory, summarise_allocator
from gpu_report.measure.operation_counts import count_work
from gpu_report.measure.run import (
    LEAST_WARM_UP_STEPS,
    MOST_LIGHT_PROFILES,
    MOST_WARM_UP_STEPS,
    RICH_STEPS,
    WARM_UP_S,
    profiler_warm_up_steps,
    trace_name,
    unfinished_trace,
)
from gpu_report.measure.timing import mean_time_in_ms, synchronize, times_in_ms
from gpu_report.measure.training import OnStep, Training, prepare, train_step
from gpu_report.measure.world import World
from gpu_report.records.record import Profile, RankTraces, is_as_timed

LIGHT: Final[dict[str, Any]] = {
    "experimental_config": _ExperimentalConfig(disable_external_correlation=True)
}
"""A kernel is traced to its operation by the call that launched it, so the light profile needs no
number for it.
"""
RICH: Final[dict[str, Any]] = {"record_shapes": True, "profile_memory": True, "with_stack": True}
"""What the rich profile records beside operations and the device's work."""


def profile_training(
    training: Training,
    *,
    steps: int,
    timed_step_ms: float | None = None,
    trace_folder: Path,
    rich_trace_folder: Path | None = None,
    memory_folder: Path | None = None,
    run_id: str,
    on_step: OnStep,
) -> Profile:
    """Count the work of a step, warm up, then write a light trace of `steps` steps and a rich one
    of RICH_STEPS.

    A light trace whose steps do not take as long as timed ones is written anew, up to
    MOST_LIGHT_PROFILES times. The loader must hold as many batches as `Run.steps_per_epoch` says.
    There is a rich trace if there is a folder for it, and a memory snapshot of one step more if
    there is one for that. A replayed graph shows kernels without their operations, so the rich
    trace of a captured step is recorded before the capture. A custom training loop is called once
    to warm up and once for each trace, which shows the call, a whole training, as a step.

    Raises:
        FileWriteError: a trace or the snapshot cannot be written.
    """
    custom_loop = training.custom_loop
    work = None if custom_loop else count_work(training)  # a custom loop is not built yet
    rich_sha256 = ""
    if training.captured and rich_trace_folder:
        training.model.train()
        uncaptured = Stepper(replace(training, captured=None), on_step)
        with training.captured.on_its_stream():
            for _ in range(LEAST_WARM_UP_STEPS):
                uncaptured.train_once()
            _, rich_sha256 = _record(
                uncaptured, RICH_STEPS, rich_trace_folder, run_id, is_rich=True
            )
        del uncaptured  # with the batches that its loader holds
    forget_allocations(training.device)
    prepare(training, phase=record_function)
    training.model.train()
    stepper = Stepper(training, on_step)
    stepper.warm_up()
    for _ in range(MOST_LIGHT_PROFILES):
        times_ms, sha256 = _record(
            stepper, 1 if custom_loop else steps, trace_folder, run_id, is_rich=False
        )
        step_times_ms = (
            [mean_time_in_ms(time_ms, custom_loop.steps) for time_ms in times_ms]
            if custom_loop
            else times_in_ms(times_ms)
        )
        overhead = statistics.median(step_times_ms) / timed_step_ms if timed_step_ms else 1.0
        if is_as_timed(training.world.agree(overhead, max)):
            break
    allocator = summarise_allocator(training.device)
    if rich_trace_folder and not rich_sha256:
        _, rich_sha256 = _record(stepper, RICH_STEPS, rich_trace_folder, run_id, is_rich=True)
    if custom_loop:
        work = count_work(training)
    (sha256, rich_sha256, step_times_ms), *others = training.world.gather(
        (sha256, rich_sha256, step_times_ms)
    )
    if training.world.agents > 1:
        for folder in filter(None, (trace_folder, rich_trace_folder)):
            _bring_traces(training.world, folder)
    return Profile(
        trace_file=trace_name(),
        trace_sha256=sha256,
        step_times_ms=step_times_ms,
        rich_trace_file=trace_name() if rich_trace_folder else "",
        rich_trace_sha256=rich_sha256,
        other_ranks=[
            RankTraces(trace_file=trace_name(rank), trace_sha256=light, rich_trace_sha256=rich)
            for rank, (light, rich, _) in enumerate(others, start=1)
        ],
        work=work,
        allocator=allocator,
        memory_snapshot_file=snapshot_memory(training, memory_folder) if memory_folder else "",
    )


def _bring_traces(world: World, folder: Path) -> None:
    """Copy into this host's folder what ranks of other hosts have written into theirs, so that none
    is missing.

    Raises:
        FileWriteError: one cannot be written.
    """
    for rank in range(world.size):
        path = folder / trace_name(rank)
        content = world.send(path.read_bytes() if rank == world.rank else b"", from_rank=rank)
        if os.environ["LOCAL_RANK"] == "0" and not path.exists():
            try:
                path.write_bytes(content)
            except OSError as error:
                raise FileWriteError(
                    f"cannot write trace {path}: {error.strerror}; free some space there"
                ) from error


def move_whole_trace(unfinished: Path, trace_file: Path) -> str:
    """Rename a finished trace into place and return the SHA-256 of its file; one that was cut short
    is removed.

    The profiler writes plain JSON to the temporary folder first and says nothing where that is
    full, so the file may be sound gzip around half a trace.

    Raises:
        FileWriteError: the file is missing, no sound gzip, or no whole JSON object.
    """
    try:
        content = unfinished.read_bytes()
        is_whole = isinstance(json.loads(gzip.decompress(content)), dict)
    except (OSError, EOFError, zlib.error, ValueError):
        is_whole = False
    if not is_whole:
        unfinished.unlink(missing_ok=True)
        raise FileWriteError(
            f"trace {trace_file} was not written whole; free some space there and in "
            f"{tempfile.gettempdir()}, "
            "then run the same command again"
        )
    unfinished.replace(trace_file)
    return hashlib.sha256(content).hexdigest()


def _record(
    stepper: "Stepper", steps: int, folder: Path, run_id: str, *, is_rich: bool
) -> tuple[list[float], str]:
    """Write one trace and return the milliseconds of each step in it, and the SHA-256 of
    its file.
    """
    training = stepper.training
    recorder = TraceRecorder(
        steps=steps,
        warm_up_steps=0 if is_rich else profiler_warm_up_steps(training.variant.workers),
        device=training.device,
        world=training.world,
        folder=folder,
        run_id=run_id,
        recorded={**RICH, "with_stack": training.custom_loop is None} if is_rich else LIGHT,
    )
    return recorder.record(partial(stepper.train_once, loading_unrecorded=not is_rich))


class TraceRecorder:
    """Records steps into a trace: of all of them by `record`, or of a loop of someone else's, which
    calls `step` after each. Where it is stopped before the last one, nothing is written.

    Args:
        steps: How many are recorded.
        warm_up_steps: How many before them run with the profiler on and are not recorded.
        device: Where the steps run.
        world: The processes of the training.
        folder: An existing folder for the trace of this process's rank; the unfinished trace is
            beside it.
        run_id: Written into the trace.
        recorded: LIGHT or RICH.

    Raises:
        RuntimeError: another profiler of this process is at work.
    """

    def __init__(
        self,
        *,
        steps: int,
        warm_up_steps: int,
        device: torch.device,
        world: World,
        folder: Path,
        run_id: str,
        recorded: Mapping[str, Any],
    ) -> None:
        self._steps, self._warm_up_steps = steps, warm_up_steps
        self._unfinished = unfinished_trace(folder, world.rank)
        self._trace_file = folder / trace_name(world.rank)
        # Kineto reports its start and stop, and that a CPU-only machine has no GPU, as if they were
        # errors.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        with _quiet_profiler():
            self._profiler = profiler_of_steps(
                device, steps=steps, warm_up_steps=warm_up_steps, recorded=recorded
            )
            self._profiler.on_trace_ready = lambda profiler: _export(profiler, self._unfinished)
            self._profiler.start()
        if not world.is_launched:  # PyTorch itself names the rank where there are several
            # HTA looks for `"rank": 0` with its space, TensorBoard for distributedInfo.
            self._profiler.add_metadata_json(
                "distributedInfo", json.dumps({"backend": "none", "rank": 0, "world_size": 1})
            )
        self._profiler.add_metadata_json("gpu_report_run", json.dumps(run_id))

    def stop(self) -> None:
        """Record no more; what is not whole by now is not written."""
        # A whole trace is on the disk by now, and of another none is wanted.
        self._profiler.on_trace_ready = None
        with _quiet_profiler():
            self._profiler.stop()

    def record(self, train_once: Callable[[], float]) -> tuple[list[float], str]:
        """The milliseconds of each recorded step, and the SHA-256 of the trace's file.

        `train_once` trains a step, waits until the device is done with it, and returns the
        milliseconds it took.

        Raises:
            FileWriteError: the trace cannot be written.
        """
        times_ms = []
        try:
            for _ in range(self._warm_up_steps + self._steps):
                times_ms.append(train_once())
                self.step()
        finally:
            self.stop()
        return times_ms[self._warm_up_steps :], self.move_whole_trace()

    def step(self) -> None:
        """A step has ended; after the last one the trace is written.

        Raises:
            FileWriteError: it cannot be written.
        """
        with _quiet_profiler():
            self._profiler.step()

    def move_whole_trace(self) -> str:
        """Put the trace of all steps into its place and return the SHA-256 of its file.

        Raises:
            FileWriteError: it was not written whole.
        """
        return move_whole_trace(self._unfinished, self._trace_file)


@contextmanager
def _quiet_profiler() -> Iterator[None]:
    """Without the profiler's warnings about its one cycle: to keep events beyond it takes longer
    than the steps.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events", category=UserWarning)
        warnings.filterwarnings(
            "ignore", message=".*Profiler won't be using warmup", category=UserWarning
        )
        yield


class Stepper:
    """The training's steps one after the other, with the names of their phases; or calls of a
    custom training loop.
    """

    def __init__(self, training: Training, on_step: OnStep) -> None:
        self.training, self._on_step = training, on_step
        self._batches = None if training.custom_loop else iter(training.train_loader)
        self._done = 0

    def train_once(self, *, loading_unrecorded: bool = False) -> float:
        """Train one step and return the milliseconds it took until the device was done with it."""
        started = time.perf_counter()
        if self.training.custom_loop is not None:
            self.training.custom_loop.built.train()
        elif self._batches is not None:
            with (
                record_function("data"),
                unrecorded(self._batches) if loading_unrecorded else nullcontext(),
            ):
                batch = next(self._batches)
            train_step(self.training, batch, phase=record_function)
        synchronize(*self.training.devices)
        time_ms = (time.perf_counter() - started) * 1e3
        self._done += 1
        self._on_step(0, self._done)
        return time_ms

    def warm_up(self) -> None:
        """Train until WARM_UP_S are over, within the bounds of the number of steps; a call warms
        itself up.
        """
        began_s = time.perf_counter()
        while self._batches is not None and (
            self._done < LEAST_WARM_UP_STEPS
            or (
                self._done < MOST_WARM_UP_STEPS
                and self.training.world.agree(time.perf_counter() - began_s, min) < WARM_UP_S
            )
        ):
            self.train_once()


@contextmanager
def unrecorded(loading: Iterator[Batch]) -> Iterator[None]:
    """Inside, what a loader does in this thread is one event with its usual name, without the
    operations in it.

    What prefetches batches or picks them on the device launches work there, so nothing of it is
    left out.
    """
    if not isinstance(loading, _BaseDataLoaderIter):
        yield
        return
    with record_function(f"enumerate(DataLoader)#{type(loading).__name__}.__next__"):
        _enable_record_function(False)
        try:
            yield
        finally:
            _enable_record_function(True)


def profiler_of_steps(
    device: torch.device, *, steps: int, warm_up_steps: int, recorded: Mapping[str, Any]
) -> profile:
    """Not yet started, and without what it does with the trace."""
    return profile(
        activities=activities_of(device),
        schedule=schedule(wait=0, warmup=warm_up_steps, active=steps, repeat=1),
        **recorded,
    )


def activities_of(device: torch.device) -> list[ProfilerActivity]:
    """What is recorded: the host, and the device where the profiler knows it."""
    of_device = getattr(ProfilerActivity, device.type.upper(), ProfilerActivity.CPU)
    supported: set[ProfilerActivity] = supported_activities()  # type: ignore[no-untyped-call]
    return [each for each in {ProfilerActivity.CPU, of_device} if each in supported]


def _export(profiler: profile, trace_file: Path) -> None:
    try:
        profiler.export_chrome_trace(str(trace_file))
    except OSError as error:
        trace_file.unlink(missing_ok=True)
        raise FileWriteError(
            f"cannot write trace {trace_file}: {error.strerror}; free some space, then run the "
            "same command again"
        ) from error
