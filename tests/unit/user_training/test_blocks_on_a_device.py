"""Blocks of steps on a device that works while the host goes on; it is simulated, and so is the
time.
"""

import threading
from collections.abc import Iterable, Iterator
from itertools import chain, count, cycle, islice, pairwise, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gpu_report.measure import training
from gpu_report.measure.memory import MemoryMeter
from gpu_report.user_training import blocks, run, step_watch, watching, workload
from gpu_report.user_training.blocks import FIRST_STEPS, MOST_BLOCKS, Measured
from gpu_report.user_training.run import StepRun
from gpu_report.user_training.step_watch import StepWatch
from gpu_report.user_training.workload import Loading
from gpu_report.workloads.protocol import Phase

STEP_S = 0.0625
CPU = torch.device("cpu")


class Device:
    """`now_s` is the host's time, `free_s` when the device will have done all that was launched."""

    def __init__(self) -> None:
        self.now_s = self.free_s = self.cpu_s = 0.0
        self.waits = 0

    def launch(self, seconds: float) -> None:
        self.free_s = max(self.now_s, self.free_s) + seconds

    def wait(self, *_: torch.device) -> None:
        self.waits += 1
        self.now_s = max(self.now_s, self.free_s)

    def clock(self, _: torch.device) -> "Clock":
        return Clock(self)


class Clock:
    def __init__(self, device: Device) -> None:
        self._device, self._marks_s = device, list[float]()

    def mark(self) -> None:
        self._marks_s.append(max(self._device.now_s, self._device.free_s))

    def step_times_ms(self) -> list[float]:
        self._device.now_s = max(self._device.now_s, self._marks_s[-1])
        return [(end - start) * 1e3 for start, end in pairwise(self._marks_s)]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    host = SimpleNamespace(
        perf_counter=lambda: device.now_s,
        monotonic=lambda: device.now_s,
        thread_time=lambda: device.cpu_s,
        process_time=lambda: 3 * device.cpu_s,
    )
    for module in (blocks, run, step_watch, training, workload):
        monkeypatch.setattr(module, "time", host)
    monkeypatch.setattr(blocks, "READY_TIMES", Path("/no such file"))  # whose times are real ones
    monkeypatch.setattr(run, "synchronize", device.wait)
    monkeypatch.setattr(blocks, "synchronize", device.wait)
    monkeypatch.setattr(training, "synchronize", device.wait)
    monkeypatch.setattr(training, "step_clock", device.clock)
    monkeypatch.setattr(blocks, "step_clock", device.clock)
    return device


class Loader:
    """Takes `wait_s` for each of eight batches."""

    def __init__(self, device: Device, wait_s: float) -> None:
        self._device, self._wait_s = device, wait_s

    def __iter__(self) -> Iterator[int]:
        for number in range(8):
            self._device.now_s += self._wait_s
            yield number


class Step:
    """Steps of `sizes` in turn; the first `slow_steps` and the first of each size are slow."""

    samples = 0
    part = "step"

    def __init__(
        self,
        device: Device,
        *,
        wait_s: float,
        step_s: float = STEP_S,
        slow_steps: int = 0,
        sizes: Iterable[int] = (1,),
    ) -> None:
        self._device, self._step_s, self._slow_steps = device, step_s, slow_steps
        self._sizes, self._known_sizes, self._steps = cycle(sizes), set[int](), 0
        self.loading = Loading(Loader(device, wait_s))

    def take(self, *, phase: Phase) -> int:
        self.loading.take(phase=phase)
        size = next(self._sizes)
        self.samples += size
        return size

    def once(self, size: int, *, phase: Phase) -> None:
        self._steps += 1
        is_slow = self._steps <= self._slow_steps or size not in self._known_sizes
        self._known_sizes.add(size)
        self._device.launch(20 * STEP_S if is_slow else self._step_s)


def measured(step: Step, *, seconds: float = 60.0) -> Measured:
    own = StepRun(
        step,  # type: ignore[arg-type]  # it stands in for one that trains
        device=CPU,
        may_be_on_host=False,
        loader_workers=0,
        deadline_s=seconds,
        is_profiled=False,
    )
    own._steps_before = 1  # as on an accelerator
    return own.measure()


@pytest.mark.parametrize("step_s", [STEP_S, 6 * STEP_S])
def test_a_load_that_the_device_hides_is_in_no_block_however_few_steps_it_has(
    device: Device, step_s: float
) -> None:
    found = measured(Step(device, wait_s=0.8 * step_s, step_s=step_s))

    assert found.block_times_ms == pytest.approx([1e3 * step_s] * len(found.block_times_ms))
    assert len(found.block_times_ms) >= 8
    assert found.data_wait_shares == pytest.approx([0.8] * len(found.block_times_ms))


def test_a_slow_second_step_does_not_make_blocks_short(device: Device) -> None:
    assert measured(Step(device, wait_s=0.0, slow_steps=3)).block_steps == round(0.25 / STEP_S)


def test_a_load_that_the_device_does_not_hide_is_in_every_block(device: Device) -> None:
    found = measured(Step(device, wait_s=2 * STEP_S))

    assert found.block_times_ms == pytest.approx([2e3 * STEP_S] * len(found.block_times_ms))
    assert max(found.data_wait_shares) <= 1.0


@pytest.mark.parametrize(
    "sizes",
    [
        [2] * 30 + [1],
        pytest.param([2] * 27 + [1], id="beside a block"),
        pytest.param([2] * 5 + [1], id="in the trial block"),
        pytest.param([2, 1] + [2] * 30 + [3], id="a third"),
    ],
)
def test_what_a_batch_of_another_size_costs_the_first_time_is_in_no_block(
    device: Device, sizes: list[int]
) -> None:
    found = measured(Step(device, wait_s=0.0, sizes=sizes))

    assert found.block_times_ms == pytest.approx([1e3 * STEP_S] * len(found.block_times_ms))
    assert found.block_steps == round(0.25 / STEP_S)
    assert len(found.block_times_ms) >= 8
    assert found.has_settled


def test_batches_that_are_always_of_another_size_are_timed(device: Device) -> None:
    assert len(measured(Step(device, wait_s=0.0, sizes=count(1))).block_times_ms) >= 8
    assert len(watched(device, range(300)).block_times_ms) > 10


def watched(device: Device, sizes: Iterable[int]) -> Measured:
    """A loop of 300 steps, of which the first of each size is slow."""
    watch, known = StepWatch(), set[int]()
    watch.blocks.trace_problem = "none is wanted"
    for size in islice(cycle(sizes), 300):
        watch.begin()
        device.launch(STEP_S if size in known else 20 * STEP_S)
        watch.end(size)
        known.add(size)
    found = watch.finish()
    assert found is not None
    return found


def test_what_a_watched_batch_of_another_size_costs_the_first_time_is_in_no_block(
    device: Device,
) -> None:
    found = watched(device, [2] * 90 + [1])

    assert found.block_times_ms == pytest.approx([1e3 * STEP_S] * len(found.block_times_ms))
    assert len(found.block_times_ms) > 30


def test_a_watched_loop_is_timed_without_being_waited_for_after_its_first_steps(
    device: Device,
) -> None:
    watch = StepWatch()
    watch.blocks.trace_problem = "none is wanted"
    steps = round(2.5 * MOST_BLOCKS * 0.25 / STEP_S)

    for number in range(steps):
        device.now_s += 6 * STEP_S if number % 40 == 39 else 0.0
        watch.begin()
        device.launch(STEP_S)
        watch.end(1)
        device.now_s = max(
            device.now_s, device.free_s - 8 * STEP_S
        )  # no more is launched in advance
    found = watch.finish()

    assert found is not None
    assert device.waits == FIRST_STEPS
    assert found.block_times_ms == pytest.approx([1e3 * STEP_S] * len(found.block_times_ms))
    assert MOST_BLOCKS // 2 <= len(found.block_times_ms) < MOST_BLOCKS
    assert found.block_steps == 4 * round(0.25 / STEP_S)
    assert max(found.data_wait_shares) <= 1.0


def with_pauses(device: Device, *, are_announced: bool) -> StepWatch:
    """160 steps, after every 40 of them a pause of 4 s."""
    watch = StepWatch()
    watch.blocks.trace_problem = "none is wanted"
    for number in range(160):
        watch.begin()
        device.now_s += STEP_S
        watch.end(1)
        if number in (39, 79, 119):
            if are_announced:
                watch.pause()
            device.now_s += 4.0
            if are_announced:
                watch.resume()
    return watch


@pytest.mark.parametrize("are_announced", [True, False])
def test_pauses_are_added_up_with_their_share_and_are_no_limit(
    device: Device, *, are_announced: bool
) -> None:
    """Those that nobody announced are the reason that there is none."""
    watch = with_pauses(device, are_announced=are_announced)

    found, lines = watching._card(watch)

    assert watch.pauses == 3
    assert (watch.announced_s, watch.stalled_s) == ((12, 0) if are_announced else (0, 12))
    printed = " ".join(" ".join(lines).split())
    assert "3 pauses between steps, 12.0 s of 22.0 s (54.5 %)" in printed
    assert found is not None
    assert found.limit == ""
    assert ("pauses between steps took 12.0 s" in found.problem) is not are_announced


def watched_with_sleep(device: Device, *, share: float) -> Measured:
    """Steps of which this share is on the CPU; announced pauses between them are so as a whole."""
    watch = StepWatch()
    watch.blocks.trace_problem = "none is wanted"
    for number in range(300):
        watch.begin()
        device.now_s += STEP_S
        device.cpu_s += share * STEP_S
        watch.end(1)
        if number % 10 == 9:
            watch.pause()
            device.now_s += STEP_S
            device.cpu_s += STEP_S
            watch.resume()
    found = watch.finish()
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_time_of_the_steps_on_the_cpu_tells_python_from_a_sleep(
    device: Device, share: float
) -> None:
    assert watched_with_sleep(device, share=share).cpu_share == pytest.approx(share)


def test_on_an_accelerator_the_cpu_time_is_that_of_all_threads(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backward pass runs in a thread of autograd's."""
    monkeypatch.setattr(
        blocks, "device_and_memory", lambda: (torch.device("meta"), MemoryMeter(CPU))
    )

    assert watched_with_sleep(device, share=0.25).cpu_share == pytest.approx(0.75)


def test_cpu_time_of_a_thread_that_has_ended_is_not_lost(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = chain([2.0, 2.0 + 150 * STEP_S], repeat(0.0))
    monkeypatch.setattr(blocks, "other_threads_s", lambda: next(seconds))
    monkeypatch.setattr(threading, "active_count", lambda: 2)

    found = watched_with_sleep(device, share=1.0)

    assert found.other_threads_share == pytest.approx(150 / (300 + 30 - FIRST_STEPS), rel=0.01)


@pytest.mark.parametrize("is_on", [True, False])
def test_anomaly_mode_of_the_loop_is_noticed(device: Device, *, is_on: bool) -> None:
    with torch.autograd.set_detect_anomaly(is_on):
        assert watched(device, [1]).has_anomaly_mode is is_on


def test_a_thread_that_waits_for_its_turn_on_the_cpu_does_not_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_times = tmp_path / "schedstat"
    monkeypatch.setattr(blocks, "READY_TIMES", ready_times)
    clock = blocks.cpu_clock_of(torch.device("cpu"))

    without = clock()
    ready_times.write_text("7 40000000000 3\n", "ascii")

    assert clock() - without == pytest.approx(40, abs=1)
