"""The profiled run: a few training steps under PyTorch's profiler, the trace they leave, and what a step takes.

The steps are those of the timed loop, with the names of their phases (data, forward, backward, optimizer) in the trace,
or one call of the workload's own loop.
"""

import gzip
import hashlib
import json
import os
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule, supported_activities

from gpu_report.errors import FileWriteError
from gpu_report.measure.clocks import synchronize
from gpu_report.measure.digits import mean_time_in_ms, times_in_ms
from gpu_report.measure.run import TRACE_FILE, unfinished_trace
from gpu_report.measure.snapshot import forget_allocations, snapshot_memory, summarise_allocator
from gpu_report.measure.training import OnStep, Training, batches, prepare, train_step
from gpu_report.measure.work import count_work
from gpu_report.records import Profile

_CALLS: Final = 1
"""Of a workload's own loop, to warm up and again for the trace: a call is a whole training."""


def profile_training(
    training: Training,
    *,
    warm_up_steps: int,
    steps: int,
    trace_folder: Path,
    memory_folder: Path | None = None,
    run_id: str,
    on_step: OnStep,
) -> Profile:
    """Count the work of a step, then train `warm_up_steps` and `steps` steps, and write the trace of the latter whole.

    The loader must hold at least that many batches. One step more leaves a memory snapshot in `memory_folder`, if there
    is one. A loop of the workload's own is called once to warm up and once for the trace, which shows the call as a
    step. Where this raises there is no trace.

    Raises:
        FileWriteError: the trace or the snapshot cannot be written.
    """
    own_loop = training.own_loop
    work = None if own_loop else count_work(training)  # an own loop is not built yet
    forget_allocations(training.device)
    prepare(training, phase=record_function)
    unfinished = unfinished_trace(trace_folder)
    if own_loop:
        warm_up_steps = steps = _CALLS
    times_ms = _run(
        training, warm_up_steps=warm_up_steps, steps=steps, trace_file=unfinished, run_id=run_id, on_step=on_step
    )
    step_times_ms = (
        [mean_time_in_ms(time_ms, own_loop.steps) for time_ms in times_ms] if own_loop else times_in_ms(times_ms)
    )
    allocator = summarise_allocator(training.device)
    if own_loop:
        work = count_work(training)
    snapshot_file = snapshot_memory(training, memory_folder) if memory_folder else ""
    return Profile(
        trace_file=TRACE_FILE,
        trace_sha256=move_whole_trace(unfinished, trace_folder / TRACE_FILE),
        step_times_ms=step_times_ms,
        work=work,
        allocator=allocator,
        memory_snapshot_file=snapshot_file,
    )


def move_whole_trace(unfinished: Path, trace_file: Path) -> str:
    """Rename a finished trace into place and return the SHA-256 of its file; one that was cut short is removed.

    The profiler writes plain JSON to the temporary folder first and says nothing where that is full, so the file may
    be sound gzip around half a trace.

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
            f"trace {trace_file} was not written whole; free some space there and in {tempfile.gettempdir()}, "
            "then run the same command again"
        )
    unfinished.replace(trace_file)
    return hashlib.sha256(content).hexdigest()


def _run(
    training: Training, *, warm_up_steps: int, steps: int, trace_file: Path, run_id: str, on_step: OnStep
) -> list[float]:
    # Kineto reports its start and stop, and that a CPU-only machine has no GPU, as if they were errors.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    step_times_ms = []
    profiler = profile(
        activities=_activities(training.device),
        schedule=schedule(wait=0, warmup=warm_up_steps, active=steps, repeat=1),
        on_trace_ready=lambda profiler: _export(profiler, trace_file),
        record_shapes=True,
        profile_memory=True,
    )
    training.model.train()
    train_once = _stepper(training)
    with warnings.catch_warnings(), profiler:
        # There is one cycle; keeping events beyond it would parse all of them, which takes longer than the steps.
        warnings.filterwarnings("ignore", message=".*Profiler clears events", category=UserWarning)
        # HTA looks for `"rank": 0` with its space, TensorBoard for distributedInfo.
        profiler.add_metadata_json("distributedInfo", json.dumps({"backend": "none", "rank": 0, "world_size": 1}))
        profiler.add_metadata_json("gpu_report_run", json.dumps(run_id))
        for step in range(warm_up_steps + steps):
            started = time.perf_counter()
            train_once()
            # Here the wait is wanted: the work of a step must end within the step that the trace shows.
            synchronize(training.device)
            step_times_ms.append((time.perf_counter() - started) * 1e3)
            on_step(0, step + 1)
            profiler.step()
    return step_times_ms[warm_up_steps:]


def _stepper(training: Training) -> Callable[[], object]:
    """A step with the names of its phases, or a call of the workload's own loop, which was built with them."""
    if training.own_loop is not None:
        return training.own_loop.built.train
    profiled_batches = batches(training)

    def train_once() -> None:
        with record_function("data"):
            batch = next(profiled_batches)
        train_step(training, batch, phase=record_function)

    return train_once


def _activities(device: torch.device) -> list[ProfilerActivity]:
    of_device = getattr(ProfilerActivity, device.type.upper(), ProfilerActivity.CPU)
    wanted = {ProfilerActivity.CPU, of_device}
    supported: set[ProfilerActivity] = supported_activities()  # type: ignore[no-untyped-call]
    return [activity for activity in wanted if activity in supported]


def _export(profiler: profile, trace_file: Path) -> None:
    try:
        profiler.export_chrome_trace(str(trace_file))
    except OSError as error:
        trace_file.unlink(missing_ok=True)
        raise FileWriteError(
            f"cannot write trace {trace_file}: {error.strerror}; free some space, then run the same command again"
        ) from error
