"""Measuring the steps of a training loop that is not ours, as they come: timed blocks, up to three
profiles among them.

begin, end of each step -> the first steps say how many a block has -> blocks, by the rules of `run`
-> a light
profile of a few steps -> blocks to the end -> Measured

The time between the end of a step and the beginning of the next is the wait for data. The device is
waited for in the first steps and in the profiled ones; on an accelerator blocks are timed by
events, which are read a block later. A pause, such as an evaluation, drops the block or profile
that it is in, and so does a step with a new batch size; a pause that a trainer announces is left
out of its block. All pauses are added up. What torch needs beside itself is imported where the
first block begins, outside of what is timed.
"""

import gc
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from gpu_report.errors import GpuReportError
from gpu_report.measure.timing import step_clock, synchronize
from gpu_report.user_training.step_counts import BatchSizes, StepCounts

if TYPE_CHECKING:
    from gpu_report.measure.memory import MemoryMeter
    from gpu_report.measure.timing import StepClock
    from gpu_report.records.record import Load
    from gpu_report.user_training.run import Measured

FIRST_STEPS: Final = 4
"""Of which the fastest says how many steps a block has; the first of all compiles, allocates, and
no wait is known.
"""
BLOCKS_BEFORE_PROFILE: Final = 9
"""One of warm-up, and as many as give an interval."""
PROFILED_STEPS: Final = 5
MOST_BLOCKS: Final = 64
"""Then two become one, so that a long training needs no more memory and is waited for ever more
rarely.
"""
_PAUSE_S: Final = 1.0
_PAUSE_STEPS: Final = 20
"""A wait that is longer than both is a pause and no wait for data."""
_MOST_WORKERS: Final = 16
TICK_S: Final = 1.0
_WAIT_MARK: Final = "enumerate(DataLoader)#between steps"
"""As a DataLoader marks its wait, so that what reads the trace knows it."""
RUN_ID: Final = "gpu_report.step"

Listener = Callable[[StepCounts], None]


class StepWatch:
    """The steps of one thread of one process; those of other threads, and those inside of a step,
    are not measured.

    Of several ranks the first is measured. Listeners get the counts about once a second, where a
    step ends.

    Attributes:
        steps: That have ended without an error.
        ignored: Steps of other threads or inside of a step.
        pauses: Such as evaluations, which are not timed.
        announced_s: Of the pauses that a trainer announced.
        stalled_s: Of those that nobody announced, such as a loader that stalls.
        looped_s: From the first step to the last but for announced pauses.
        trace_problem: Why no step could be profiled, in a clause; else empty.
    """

    def __init__(self, *listeners: Listener) -> None:
        self.steps = self.ignored = self.pauses = 0
        self.announced_s = self.stalled_s = self.looped_s = 0.0
        self.trace_problem = ""
        self._listeners = listeners
        self._made_in = os.getpid()
        self._thread: int | None = None
        self._is_inside = False
        self._samples = self._waited_s = 0.0
        self._steps_with_samples = 0
        self._sizes = BatchSizes()
        self._ended_s: float | None = None
        self._paused_s: float | None = None
        self._first_s: list[float] = []
        self._blocks: _Blocks | None = None
        self._profiling: _Profiling | None = None
        self._profiled_ms: list[float] = []
        self._trace = b""
        self._profiles = 0
        self._tick_s = 0.0

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that made it, and no fork, and of several ranks the first."""
        return self._made_in == os.getpid() and not self._rank

    @cached_property
    def _rank(self) -> int:
        """Asked at the first step; a script may end its process group before the card."""
        return torch.distributed.get_rank() if _is_distributed() else 0

    def begin(self) -> bool:
        """Whether the step that begins is measured; if so, `end` or `drop` must follow."""
        if self._thread is None and self.is_ours:
            self._thread = threading.get_ident()
        if self._is_inside or not self._is_in_thread:
            self.ignored += self._thread is not None and self._made_in == os.getpid()
            return False
        self._is_inside = True
        self.resume()
        if self._profiling is not None:
            self._profiling.end_wait()
        now_s = time.perf_counter()
        if self._ended_s is None:
            self._ended_s = now_s
            return True
        waited_s = now_s - self._ended_s
        if self._blocks is not None and waited_s > self._blocks.pause_s:
            self.pauses += 1
            self.stalled_s += waited_s
            self.looped_s += waited_s
            self._ended_s = now_s
            self._drop_measuring()
            return True
        self._waited_s += waited_s
        if self._blocks is not None and self._blocks.running is not None:
            self._blocks.running.waited_s += waited_s
        return True

    def end(self, samples: int | None) -> None:
        """The step has trained on that many samples, as far as they are known."""
        began_s = self._ended_s
        assert began_s is not None  # since the step has begun
        self._is_inside = False
        self.steps += 1
        if samples is not None:
            self._samples += samples
            self._steps_with_samples += 1
            if self._sizes.add(samples):
                self._drop_measuring()
        if self._profiling is not None:
            self._go_on_profiling()
        elif self._blocks is not None:
            if self._blocks.end_step() and self._is_profile_due(self._blocks):
                self._begin_profile(self._blocks)
        else:
            synchronize(_device_and_memory()[0])
            self._first_s.append(time.perf_counter() - began_s)
            if len(self._first_s) == FIRST_STEPS:
                self._blocks = _Blocks(min(self._first_s[1:]))
                self._blocks.begin()
        self._ended_s = time.perf_counter()
        self.looped_s += self._ended_s - began_s
        if self._ended_s >= self._tick_s:
            self._tick()

    def drop(self) -> None:
        """The step has raised, and the block that it is in is not timed."""
        self._is_inside = False
        self._ended_s = self._paused_s = None
        self._drop_measuring()

    def pause(self) -> None:
        """What follows until `resume`, such as an evaluation, is neither timed nor profiled,
        however short it is.

        The block that it is in goes on afterwards. The device is waited for, since its work until
        now counts.
        """
        if (
            self._is_inside
            or self._paused_s is not None
            or self._ended_s is None
            or not self._is_in_thread
        ):
            return
        if self._profiling is not None:
            self._drop_measuring()
        if self._blocks is not None:
            synchronize(self._blocks.device)
            if self._blocks.running is not None:
                self._blocks.running.cpu_s += self._blocks.cpu_clock()
        self._paused_s = time.perf_counter()
        self.pauses += 1

    def resume(self) -> None:
        """Go on after `pause`; nothing without one."""
        if self._paused_s is None or self._ended_s is None or not self._is_in_thread:
            return
        lasted_s = time.perf_counter() - self._paused_s
        self._paused_s = None
        self.announced_s += lasted_s
        self._ended_s += lasted_s
        if self._blocks is not None and self._blocks.running is not None:
            self._blocks.running.left_out_s += lasted_s
            self._blocks.running.cpu_s -= self._blocks.cpu_clock()

    @property
    def _is_in_thread(self) -> bool:
        return self._thread == threading.get_ident() and self._made_in == os.getpid()

    def finish(self) -> "Measured | None":
        """What was measured until now; None without a step. A profile that is not complete is
        dropped.
        """
        self._drop_measuring()
        if not self.steps:
            return None
        self._tick()
        from gpu_report.user_training.run import Measured, first_timed

        blocks = self._blocks or _Blocks(min(self._first_s[1:] or self._first_s, default=0.0))
        blocks.settle()
        first, has_settled = first_timed([block.time_s for block in blocks.timed])
        timed = blocks.timed[first:]
        step_s = (
            statistics.median(block.time_s / blocks.steps for block in timed)
            if timed
            else blocks.step_s
        )
        timed_s = sum(block.time_s for block in timed)
        in_blocks_s = self.looped_s + self.announced_s - sum(self._first_s)
        return Measured(
            torch_version=torch.__version__,
            may_be_on_host=self._steps_with_samples != self.steps,
            device=str(blocks.device),
            samples=self._samples / self.steps if self._steps_with_samples == self.steps else None,
            step_ms=step_s * 1e3,
            steps=self.steps,
            block_steps=blocks.steps,
            block_times_ms=[block.time_s / blocks.steps * 1e3 for block in timed],
            data_wait_shares=[min(block.waited_s / block.time_s, 1.0) for block in timed],
            load=blocks.load(),
            has_settled=has_settled,
            profiled_times_ms=self._profiled_ms,
            trace=self._trace,
            memory_peak_mib=blocks.memory.peak_mib(),
            memory_in_use_mib=[block.in_use_mib for block in timed],
            memory_free_mib=blocks.memory.free_mib(),
            memory_kind=blocks.memory.kind,
            cpu_share=min(sum(block.cpu_s for block in timed) / timed_s, 1.0)
            if timed
            else math.nan,
            other_threads_share=blocks.other_threads_s / max(in_blocks_s, TICK_S),
            has_anomaly_mode=blocks.has_anomaly_mode,
        )

    def _drop_measuring(self) -> None:
        if self._profiling is not None:
            self._profiling.stop()
            self._profiling = None
        if self._blocks is not None:
            self._blocks.running = None

    def _is_profile_due(self, blocks: "_Blocks") -> bool:
        """Once, and anew as in a study where the profiled steps took longer than timed ones."""
        from gpu_report.measure.run import MOST_LIGHT_PROFILES
        from gpu_report.records.record import is_as_timed

        if self.trace_problem or blocks.since_profile < BLOCKS_BEFORE_PROFILE:
            return False
        if self._trace and (
            self._profiles == MOST_LIGHT_PROFILES
            or is_as_timed(statistics.median(self._profiled_ms) / blocks.step_ms)
        ):
            return False
        return not torch.autograd._profiler_enabled()  # type: ignore[attr-defined]  # the script's own

    def _begin_profile(self, blocks: "_Blocks") -> None:
        blocks.running = None
        blocks.since_profile = 0
        blocks.before_profile_mib = blocks.memory.in_use_mib()
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
        try:
            self._profiling = _Profiling(blocks.device)
        except (
            OSError,
            RuntimeError,
        ) as error:  # no temporary folder, or another profiler of this process
            self.trace_problem = _first_line(error)

    def _go_on_profiling(self) -> None:
        assert self._profiling is not None
        try:
            trace = self._profiling.end_step()
        except (GpuReportError, OSError, RuntimeError) as error:
            self.trace_problem = _first_line(error)
            self._drop_measuring()
            return
        if trace:
            self._trace, self._profiled_ms = trace, self._profiling.times_ms
            self._profiles += 1
            self._drop_measuring()

    def _tick(self) -> None:
        self._tick_s = time.perf_counter() + TICK_S
        if self._blocks is not None:
            self._blocks.read_threads()
        counts = StepCounts(
            moment_s=time.monotonic(),
            steps=self.steps,
            samples=self._samples,
            waited_s=self._waited_s,
            device_uuid=self._blocks.device_uuid if self._blocks else "",
            on_accelerator=self._blocks is not None and self._blocks.device.type != "cpu",
        )
        for listener in self._listeners:
            listener(counts)


@dataclass
class _Block:
    """Steps one after the other: how many have ended, and seconds of their time on the CPU, their
    waits, and announced pauses; once it has ended, the memory in use, and once the device has done
    it, its time without the pauses.
    """

    clock: "StepClock"
    cpu_s: float
    steps: int = 0
    waited_s: float = 0.0
    left_out_s: float = 0.0
    in_use_mib: float = 0.0
    time_s: float = 0.0

    def joined(self, after: "_Block") -> "_Block":
        """Both as one."""
        return replace(
            after,
            time_s=self.time_s + after.time_s,
            cpu_s=self.cpu_s + after.cpu_s,
            waited_s=self.waited_s + after.waited_s,
        )


class _Blocks:
    """Steps in blocks, one after the other.

    When a block ends, the time of the previous one is read, so the device keeps working on later
    steps.

    Attributes:
        timed: Blocks whose time is known.
        running: That which the next step is in; None until a step has ended after a pause, or after
            a profile.
        before_profile_mib: Memory in use when a profile began: what it leaves there does not count.
        other_threads_s: CPU seconds of this process's other Python threads since the first block.
        has_anomaly_mode: Whether autograd's was on where a block began.
    """

    def __init__(self, step_s: float) -> None:
        from gpu_report.measure.progress import read_cpu_times
        from gpu_report.user_training.run import cpu_clock_of, other_threads_s, steps_of_block

        self._pids = (
            [os.getppid()] if _is_distributed() else []
        )  # which has started the other ranks
        self._cpu_times = read_cpu_times(self._pids)
        self.step_s = step_s
        self.steps = steps_of_block(step_s * 1e3)
        self.device, self.memory = _device_and_memory()
        is_cuda = self.device.type == "cuda"
        self.device_uuid = (
            str(torch.cuda.get_device_properties(self.device).uuid) if is_cuda else ""
        )
        self.timed: list[_Block] = []
        self.running: _Block | None = None
        self.has_anomaly_mode = False
        self.cpu_clock = cpu_clock_of(self.device)
        self._other_threads_before_s = other_threads_s()
        self.other_threads_s = 0.0
        self._ended: _Block | None = None
        self.since_profile = 0
        self.before_profile_mib: float | None = None
        self._of_profile_mib = 0.0

    @property
    def step_ms(self) -> float:
        return statistics.median(block.time_s for block in self.timed) / self.steps * 1e3

    @property
    def pause_s(self) -> float:
        """A longer wait is a pause, not a wait for data."""
        return max(_PAUSE_S, _PAUSE_STEPS * self.step_s)

    def load(self) -> "Load":
        """What others have used of the CPU since the first block."""
        from gpu_report.measure.progress import load_between, read_cpu_times

        return load_between(self._cpu_times, read_cpu_times(self._pids))

    def read_threads(self) -> None:
        """Those of threads that have ended since are not lost."""
        from gpu_report.user_training.run import other_threads_s

        if threading.active_count() > 1:
            passed_s = other_threads_s() - self._other_threads_before_s
            self.other_threads_s = max(self.other_threads_s, passed_s)

    def begin(self) -> None:
        if self.before_profile_mib is not None:
            self._of_profile_mib += self.memory.in_use_mib() - self.before_profile_mib
            self.before_profile_mib = None
        self.has_anomaly_mode |= torch.is_anomaly_enabled()
        self.running = _Block(step_clock(self.device), cpu_s=-self.cpu_clock())
        self.running.clock.mark()

    def end_step(self) -> bool:
        """Whether a block ends with it; the next begins at once."""
        if self.running is None:
            self.begin()
            return False
        self.running.steps += 1
        if self.running.steps < self.steps:
            return False
        self.settle()
        if self.running.steps < self.steps:
            return False
        self.running.clock.mark()
        self.running.cpu_s += self.cpu_clock()
        self.running.in_use_mib = self.memory.in_use_mib() - self._of_profile_mib
        self._ended = self.running
        self.since_profile += 1
        self.begin()
        return True

    def settle(self) -> None:
        """Wait for the block that ended last and read its time; blocks that are too many by then
        become longer.
        """
        if self._ended is None:
            return
        block, self._ended = self._ended, None
        block.time_s = sum(block.clock.step_times_ms()) / 1e3 - block.left_out_s
        self.timed.append(block)
        self.step_s = block.time_s / self.steps
        if len(self.timed) == MOST_BLOCKS:
            pairs = zip(self.timed[::2], self.timed[1::2], strict=True)
            self.timed = [one.joined(other) for one, other in pairs]
            self.steps *= 2


class _Profiling:
    """A light profile under way; the wait between two steps is one event without the operations in
    it.
    """

    def __init__(self, device: torch.device) -> None:
        from multiprocessing import active_children

        from gpu_report.measure.profiling import LIGHT, TraceRecorder
        from gpu_report.measure.run import profiler_warm_up_steps
        from gpu_report.measure.world import ALONE

        self._device = device
        self._temporary = tempfile.TemporaryDirectory(
            prefix="gpu-report-", ignore_cleanup_errors=True
        )
        self._folder = Path(self._temporary.name, "trace")
        self._folder.mkdir()
        # The script's DataLoader workers are among its processes, and it does not say which of them
        # they are.
        self._warm_up_steps = profiler_warm_up_steps(min(len(active_children()), _MOST_WORKERS))
        self._wait = ExitStack()
        self._all_ms: list[float] = []
        try:
            self._recorder = TraceRecorder(
                steps=PROFILED_STEPS,
                warm_up_steps=self._warm_up_steps,
                device=device,
                world=replace(ALONE, is_launched=_is_distributed()),
                folder=self._folder,
                run_id=RUN_ID,
                recorded=LIGHT,
            )
        except RuntimeError:
            self._temporary.cleanup()
            raise
        self._begin_wait()

    @property
    def times_ms(self) -> list[float]:
        return self._all_ms[self._warm_up_steps :]

    def end_step(self) -> bytes:
        """The trace after the last step, else nothing.

        Raises:
            FileWriteError: the trace cannot be written.
        """
        from gpu_report.measure.run import trace_name

        synchronize(self._device)
        self._all_ms.append((time.perf_counter() - self._began_s) * 1e3)
        self._recorder.step()
        if len(self._all_ms) < self._warm_up_steps + PROFILED_STEPS:
            self._begin_wait()
            return b""
        self._recorder.move_whole_trace()
        return (self._folder / trace_name()).read_bytes()

    def _begin_wait(self) -> None:
        self._began_s = time.perf_counter()
        self._wait.enter_context(torch.profiler.record_function(_WAIT_MARK))
        torch._C._autograd._enable_record_function(False)
        self._wait.callback(torch._C._autograd._enable_record_function, True)

    def end_wait(self) -> None:
        self._wait.close()

    def stop(self) -> None:
        """Profile no more, wherever it is; nothing is left on the disk."""
        self.end_wait()
        with suppress(GpuReportError, OSError, RuntimeError):
            self._recorder.stop()
        self._temporary.cleanup()


def _device_and_memory() -> "tuple[torch.device, MemoryMeter]":
    """The accelerator if this process has memory there, else the CPU; the peak is that since the
    process began.
    """
    from gpu_report.measure.memory import MemoryMeter

    found = torch.accelerator.current_accelerator(check_available=True)
    if found is not None:
        device = torch.device(found.type, torch.accelerator.current_device_index())
        memory = MemoryMeter(device)
        if found.type == "mps" or memory.in_use_mib():
            return device, memory
    device = torch.device("cpu")
    return device, MemoryMeter(device)


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank() -> int:
    """Of this process among those of its training, as far as it is known by now."""
    if _is_distributed():
        return torch.distributed.get_rank()
    number = os.environ.get("RANK", "")
    return int(number) if number.isdecimal() else 0


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
