"""Blocks of steps timed without a profiler, light profiles of a few steps, and what was measured by
both: what `profile`, of steps that it calls, and `watch`, of a loop that is not ours, have in
common.

Block after block, the first ones warm-up by the rules of the study with a block for an epoch ->
Measured
"""

import gc
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any, Final

import psutil
import torch

from gpu_report.errors import GpuReportError
from gpu_report.measure.memory import MemoryMeter
from gpu_report.measure.profiling import LIGHT, TraceRecorder
from gpu_report.measure.progress import load_between, read_cpu_times
from gpu_report.measure.run import MOST_LIGHT_PROFILES, profiler_warm_up_steps, trace_name
from gpu_report.measure.timing import StepClock, step_clock, synchronize
from gpu_report.measure.training import warm_up
from gpu_report.measure.world import ALONE
from gpu_report.records.record import Load, MemoryKind, is_as_timed
from gpu_report.study.study import Protocol
from gpu_report.user_training.ranks import is_distributed

RULES: Final = Protocol(repetitions=1, profile_steps=5, timed_epochs=8)
"""The study's rules of warm-up and of enough, with a block for an epoch; this number of blocks
gives an interval.
"""
_BLOCK_S: Final = 0.25
"""The least, so that waiting for the device at the end of a block costs nothing beside it."""
FIRST_STEPS: Final = 4
"""Of which the fastest says how many steps a block has; the first of all compiles, allocates, and
no wait is known.
"""
BLOCKS_BEFORE_PROFILE: Final = 9
"""One of warm-up, and as many as give an interval."""
MOST_BLOCKS: Final = 64
"""Then two become one, so that a long training needs no more memory and is waited for ever more
rarely.
"""
_PAUSE_S: Final = 1.0
_PAUSE_STEPS: Final = 20
"""A wait that is longer than both is a pause and no wait for data."""
READY_TIMES: Final = Path("/proc/thread-self/schedstat")
"""On Linux: nanoseconds of this thread on the CPU, and ready for it while others had it."""
_LEAST_S: Final = 1.0
_MOST_WORKERS: Final = 16
_WAIT_MARK: Final = "enumerate(DataLoader)#between steps"
"""As a DataLoader marks its wait, so that what reads the trace knows it."""


@dataclass(kw_only=True)
class Block:
    """Steps one after the other: seconds in all, those of waiting for data, and those that what
    trains had on the CPU; samples, and at the end the memory in use.

    Samples that are not counted, and waits where there is no loader, are NaN. It is warm-up if a
    step in it had a new batch size.
    """

    steps: int = 0
    time_s: float = 0.0
    wait_s: float = 0.0
    cpu_s: float = 0.0
    samples: float = math.nan
    in_use_mib: float = 0.0
    is_warm_up: bool = False

    @property
    def step_ms(self) -> float:
        """Of a step, on average."""
        return self.time_s * 1e3 / self.steps


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured of a step; one that was too slow has no timed block, no trace, or neither.

    `samples` is the mean number in a step, None where only the step knows. `step_ms` is the median
    timed block's, or else that of the last step. `block_times_ms` is the mean time of a step in
    each timed block of `block_steps`, `block_samples` the mean number of samples in it, as a
    loader's last batch may be smaller (empty where they are not counted), and `data_wait_shares`
    the share of it spent waiting for a loader, while a device may have worked. `load` is what
    others used of the CPU meanwhile. `has_settled` is False where the blocks show that steps were
    still getting faster, which few blocks cannot. `trace` is the light profile of torch.profiler as
    gzipped JSON. `cpu_share` is the share of the timed blocks in which the thread that trains was
    on the CPU or waited only for its turn there, and `other_threads_share` the CPU time of this
    process's other Python threads over theirs. `has_anomaly_mode` says that autograd's anomaly mode
    was on, and `may_be_on_host` that only the trace shows whether the steps ran on the device. Of
    several `rank`s the first speaks for all. `loader_workers` are the processes of the DataLoader,
    None where that is not known, and `keeps_workers` says that they outlast an epoch.
    `memory_in_use_mib` is at the end of each timed block, `memory_free_mib` at the end of the last.
    """

    torch_version: str = torch.__version__
    device: str
    samples: float | None
    step_ms: float
    steps: int
    block_steps: int
    block_times_ms: Sequence[float]
    data_wait_shares: Sequence[float]
    load: Load
    has_settled: bool
    profiled_times_ms: Sequence[float] = ()
    trace: bytes = field(repr=False, default=b"")
    memory_peak_mib: float
    memory_in_use_mib: Sequence[float]
    memory_free_mib: float
    memory_kind: MemoryKind
    block_samples: Sequence[float] = ()
    cpu_share: float = math.nan
    other_threads_share: float = 0.0
    has_anomaly_mode: bool = False
    may_be_on_host: bool = False
    rank: int = 0
    loader_workers: int | None = None
    keeps_workers: bool = True

    @classmethod
    def of_blocks(
        cls,
        blocks: Sequence[Block],
        memory: MemoryMeter,
        *,
        block_steps: int,
        step_ms: float,
        **others: Any,
    ) -> "Measured":
        """From blocks of `block_steps`, of which the first are warm-up, and the memory now.

        `step_ms` is that of a step where no block is timed; `others` are the fields that neither
        shows.
        """
        first, has_settled = first_timed([block.time_s for block in blocks])
        timed = blocks[first:]
        times_ms = [block.step_ms for block in timed]
        timed_s = sum(block.time_s for block in timed)
        return cls(
            step_ms=statistics.median(times_ms) if timed else step_ms,
            block_steps=block_steps,
            block_times_ms=times_ms,
            block_samples=[
                block.samples / block_steps for block in timed if not math.isnan(block.samples)
            ],
            data_wait_shares=[
                min(block.wait_s / block.time_s, 1.0)
                for block in timed
                if not math.isnan(block.wait_s)
            ],
            has_settled=has_settled,
            memory_peak_mib=memory.peak_mib(),
            memory_in_use_mib=[block.in_use_mib for block in timed],
            memory_free_mib=memory.free_mib(),
            memory_kind=memory.kind,
            cpu_share=min(sum(block.cpu_s for block in timed) / timed_s, 1.0)
            if timed
            else math.nan,
            **others,
        )

    @property
    def throughputs_per_s(self) -> list[float]:
        """Samples per second in each timed block, or steps where the number of samples is not
        known.
        """
        samples = self.block_samples or [self.samples or 1.0] * len(self.block_times_ms)
        return [
            number * 1e3 / time_ms
            for number, time_ms in zip(samples, self.block_times_ms, strict=True)
        ]

    @property
    def profile_overhead(self) -> float:
        """What a profiled step took, in timed ones."""
        return statistics.median(self.profiled_times_ms) / self.step_ms


class LightProfile:
    """A light profile under way, in a temporary folder, of steps that follow each other.

    Args:
        device: Where the steps run.
        steps: How many are recorded.
        warm_up_steps: How many before them are not.
        run_id: Written into the trace.

    Attributes:
        times_ms: Of the steps until now, each with the wait before it; once there is a trace, of
            those in it.

    Raises:
        OSError: there can be no temporary folder.
        RuntimeError: another profiler of this process is at work.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        steps: int,
        warm_up_steps: int,
        run_id: str,
    ) -> None:
        self._device, self._steps, self._warm_up_steps = device, steps, warm_up_steps
        self._temporary = tempfile.TemporaryDirectory(
            prefix="gpu-report-", ignore_cleanup_errors=True
        )
        self._folder = Path(self._temporary.name, "trace")
        self._folder.mkdir()
        self._wait = ExitStack()
        self.times_ms: list[float] = []
        try:
            self._recorder = TraceRecorder(
                steps=steps,
                warm_up_steps=warm_up_steps,
                device=device,
                world=replace(ALONE, is_launched=is_distributed()),
                folder=self._folder,
                run_id=run_id,
                recorded=LIGHT,
            )
        except RuntimeError:
            self._temporary.cleanup()
            raise
        self._began_s = time.perf_counter()

    def begin_wait(self) -> None:
        """Mark the wait for the next step as that for a loader, without the operations in it."""
        self._wait.enter_context(torch.profiler.record_function(_WAIT_MARK))
        torch._C._autograd._enable_record_function(False)
        self._wait.callback(torch._C._autograd._enable_record_function, True)

    def end_wait(self) -> None:
        self._wait.close()

    def end_step(self) -> bytes:
        """The trace after the last step, else nothing.

        Raises:
            FileWriteError: the trace cannot be written.
        """
        synchronize(self._device)
        self.times_ms.append((time.perf_counter() - self._began_s) * 1e3)
        self._recorder.step()
        self._began_s = time.perf_counter()
        if len(self.times_ms) < self._warm_up_steps + self._steps:
            return b""
        del self.times_ms[: self._warm_up_steps]
        self._recorder.move_whole_trace()
        return (self._folder / trace_name()).read_bytes()

    def close(self) -> None:
        """Profile no more, wherever it is; nothing is left on the disk."""
        self.end_wait()
        with suppress(GpuReportError, OSError, RuntimeError):
            self._recorder.stop()
        self._temporary.cleanup()


@dataclass(kw_only=True)
class _RunningBlock(Block):
    """`left_out_s` are announced pauses in it; its time is known once the device has done it."""

    clock: StepClock
    left_out_s: float = 0.0


class WatchedBlocks:
    """Steps of a loop that is not ours, in blocks one after the other, and up to three profiles
    between them.

    When a block ends, the time of the previous one is read, so the device keeps working on later
    steps.

    Attributes:
        device: The accelerator if this process has memory there, else the CPU.
        trace_problem: Why no step can be profiled, in a clause; else empty.
    """

    def __init__(self) -> None:
        self.trace_problem = ""
        self._first_s: list[float] = []
        self._timed: list[Block] = []
        self._ended: _RunningBlock | None = None
        self._running: _RunningBlock | None = None  # the block that the next step is in
        self._has_anomaly_mode = False
        self._other_threads_s = 0.0
        self._profile: LightProfile | None = None
        self._profiles, self._profiled_ms, self._trace = 0, list[float](), b""
        self._since_profile = 0
        self._of_profile_mib = 0.0
        self._before_profile_mib: float | None = None

    @property
    def pause_s(self) -> float:
        """A longer wait is a pause, not a wait for data; none of those between the first steps."""
        if len(self._first_s) < FIRST_STEPS:
            return math.inf
        return max(_PAUSE_S, _PAUSE_STEPS * self._step_s)

    def measured(self, *, passed_s: float, **others: Any) -> Measured:
        """What was measured of all steps, which took as many seconds; `others` are the fields that
        blocks do not give.
        """
        self._settle()
        in_blocks_s = max(passed_s - sum(self._first_s), _LEAST_S)
        return Measured.of_blocks(
            self._timed,
            self._memory,
            block_steps=self._steps,
            step_ms=self._step_s * 1e3,
            device=str(self.device),
            load=load_between(self._cpu_times, read_cpu_times(self._pids)),
            profiled_times_ms=self._profiled_ms,
            trace=self._trace,
            other_threads_share=self._other_threads_s / in_blocks_s,
            has_anomaly_mode=self._has_anomaly_mode,
            **others,
        )

    def read_threads(self) -> None:
        """Those of threads that have ended since are not lost."""
        if threading.active_count() > 1:
            passed_s = other_threads_s() - self._other_threads_before_s
            self._other_threads_s = max(self._other_threads_s, passed_s)

    def _begin(self) -> None:
        if self._before_profile_mib is not None:
            self._of_profile_mib += self._memory.in_use_mib() - self._before_profile_mib
            self._before_profile_mib = None
        self._has_anomaly_mode |= torch.is_anomaly_enabled()
        self._running = _RunningBlock(clock=step_clock(self.device), cpu_s=-self._cpu_clock())
        self._running.clock.mark()

    def drop(self) -> None:
        """The block or profile that the last step was in does not count."""
        if self._profile is not None:
            self._profile.close()
            self._profile = None
        self._running = None

    def pause(self) -> None:
        """What follows until `resume` is left out of the block; the device is waited for, since its
        work until now counts.
        """
        if self._profile is not None:
            self.drop()
        synchronize(self.device)
        if self._running is not None:
            self._running.cpu_s += self._cpu_clock()

    def resume(self, lasted_s: float) -> None:
        if self._running is not None:
            self._running.left_out_s += lasted_s
            self._running.cpu_s -= self._cpu_clock()

    def begin_step(self, waited_s: float) -> None:
        """The wait for a step is over, after as many seconds."""
        if self._profile is not None:
            self._profile.end_wait()
        if self._running is not None:
            self._running.wait_s += waited_s

    def end_step(self, began_s: float) -> None:
        """The step has ended, perhaps its block with it; then the next begins, or a profile."""
        if len(self._first_s) < FIRST_STEPS:
            self._end_first_step(began_s)
            return
        if self._profile is not None:
            self._go_on_profiling(self._profile)
            return
        if self._running is None:
            self._begin()
            return
        self._running.steps += 1
        if self._running.steps < self._steps:
            return
        self._settle()
        if self._running.steps < self._steps:
            return
        self._running.clock.mark()
        self._running.cpu_s += self._cpu_clock()
        self._running.in_use_mib = self._memory.in_use_mib() - self._of_profile_mib
        self._ended = self._running
        self._since_profile += 1
        self._begin()
        if self._is_profile_due():
            self._begin_profile()

    def _end_first_step(self, began_s: float) -> None:
        """What it was waited for shows how long steps take; what it has used is not the blocks'."""
        self.device, self._memory = device_and_memory()
        synchronize(self.device)
        self._first_s.append(time.perf_counter() - began_s)
        self._step_s = min(self._first_s[1:] or self._first_s)
        self._steps = steps_of_block(self._step_s * 1e3)
        # Its parent has started the other ranks.
        self._pids = [os.getppid()] if is_distributed() else []
        self._cpu_times = read_cpu_times(self._pids)
        self._cpu_clock = cpu_clock_of(self.device)
        self._other_threads_before_s = other_threads_s()
        if len(self._first_s) == FIRST_STEPS:
            self._begin()

    def _settle(self) -> None:
        """Wait for the block that ended last and read its time; blocks that are too many by then
        become longer.
        """
        if self._ended is None:
            return
        block, self._ended = self._ended, None
        block.time_s = sum(block.clock.step_times_ms()) / 1e3 - block.left_out_s
        self._timed.append(block)
        self._step_s = block.time_s / self._steps
        if len(self._timed) == MOST_BLOCKS:
            pairs = zip(self._timed[::2], self._timed[1::2], strict=True)
            self._timed = [
                Block(
                    steps=one.steps + other.steps,
                    time_s=one.time_s + other.time_s,
                    wait_s=one.wait_s + other.wait_s,
                    cpu_s=one.cpu_s + other.cpu_s,
                    in_use_mib=other.in_use_mib,
                )
                for one, other in pairs
            ]
            self._steps *= 2

    def _is_profile_due(self) -> bool:
        """Once, and anew as in a study where the profiled steps took longer than timed ones."""
        if self.trace_problem or self._since_profile < BLOCKS_BEFORE_PROFILE:
            return False
        step_ms = statistics.median(block.step_ms for block in self._timed)
        if self._trace and (
            self._profiles == MOST_LIGHT_PROFILES
            or is_as_timed(statistics.median(self._profiled_ms) / step_ms)
        ):
            return False
        return not torch.autograd._profiler_enabled()  # type: ignore[attr-defined]  # the script's own

    def _begin_profile(self) -> None:
        self._running = None
        self._since_profile = 0
        if threading.current_thread() is not threading.main_thread():
            self.trace_problem = (
                "the steps are in another thread than the main one, where PyTorch's profiler may "
                "crash"
            )
            return
        gc.collect()  # those of ours are gone by now
        if any(issubclass(type(each), torch.profiler.profile) for each in gc.get_objects()):
            self.trace_problem = (
                "the script has a torch.profiler.profile of its own, which two at once would break"
            )
            return
        # The script's DataLoader workers are among its processes, and it does not say which of them
        # they are.
        workers, in_use_mib = min(len(active_children()), _MOST_WORKERS), self._memory.in_use_mib()
        try:
            self._profile = LightProfile(
                self.device,
                steps=RULES.profile_steps,
                warm_up_steps=profiler_warm_up_steps(workers),
                run_id="gpu_report.step",
            )
        except (OSError, RuntimeError) as error:  # no folder, or another profiler of this process
            self.trace_problem = _first_line(error)
        else:
            self._before_profile_mib = in_use_mib  # what it leaves in memory is not the script's
            self._profile.begin_wait()

    def _go_on_profiling(self, profile: LightProfile) -> None:
        try:
            trace = profile.end_step()
        except (GpuReportError, OSError, RuntimeError) as error:
            self.trace_problem = _first_line(error)
            self.drop()
            return
        if not trace:
            profile.begin_wait()
            return
        self._trace, self._profiled_ms = trace, profile.times_ms
        self._profiles += 1
        self.drop()


def device_and_memory() -> tuple[torch.device, MemoryMeter]:
    """The accelerator if this process has memory there, else the CPU; the peak is that since the
    process began.
    """
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is not None:
        device = torch.device(found.type, torch.accelerator.current_device_index())
        memory = MemoryMeter(device)
        if found.type == "mps" or memory.in_use_mib():
            return device, memory
    device = torch.device("cpu")
    return device, MemoryMeter(device)


def cpu_clock_of(device: torch.device) -> Callable[[], float]:
    """CPU seconds of what trains there: this thread, or this process where autograd launches the
    backward pass on an accelerator from a thread of its own.
    """
    return _thread_s if device.type == "cpu" else time.process_time


def _thread_s() -> float:
    """Seconds that this thread was on the CPU, and on Linux those that it was ready for it while
    others had it.
    """
    with suppress(OSError):  # another system, or a kernel that does not count them
        _, ready_ns, _ = READY_TIMES.read_text("ascii").split()
        return time.thread_time() + int(ready_ns) / 1e9
    return time.thread_time()


def other_threads_s() -> float:
    """CPU seconds so far of this process's Python threads but for the one that calls, those of
    DataLoaders, and those that C++ began: autograd's thread of a GPU runs Python's hooks, and its
    time is the step's own backward.
    """
    others = {
        thread.native_id
        for thread in threading.enumerate()
        if thread is not threading.current_thread()
        and not isinstance(thread, threading._DummyThread)
        and "_pin_memory_loop" not in thread.name
    }
    threads = psutil.Process().threads()
    return float(sum(each.user_time + each.system_time for each in threads if each.id in others))


def first_timed(times_s: Sequence[float]) -> tuple[int, bool]:
    """The number of blocks that are warm-up, and whether steps have settled after them, of which
    few say nothing.
    """
    found = warm_up(times_s, RULES)
    return found.warm_up_epochs, len(times_s) <= RULES.timed_epochs or found.settled


def steps_of_block(step_ms: float) -> int:
    """How many steps take as long as a block."""
    return max(1, math.ceil(_BLOCK_S * 1e3 / max(step_ms, 1e-3)))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
