"""A training loop of one's own, watched: `with gpu_report.step():` around each step, and a card at
the end.

steps -> StepWatch -> at the end of the process or of `with gpu_report.watch():` the card of
`profile`, and a tree
"""

import atexit
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any, Final

from gpu_report.answers.phrases import CPU
from gpu_report.answers.question import HALF
from gpu_report.errors import GpuReportError, ProfileError, lacking
from gpu_report.printing.number_format import count, counted, duration, share
from gpu_report.printing.terminal import clean, say
from gpu_report.storage.files import write_errors
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.traces.phases import OTHER_PHASE, PHASES
from gpu_report.traces.quality import Gate
from gpu_report.traces.steps import STEPS
from gpu_report.traces.timeline import PHASE_LANE, TIMELINE
from gpu_report.traces.trace import HOST
from gpu_report.user_training.arguments import require_whole
from gpu_report.user_training.blocks import BLOCKS_BEFORE_PROFILE, FIRST_STEPS, RULES
from gpu_report.user_training.profile import Profile, analysed, paragraph
from gpu_report.user_training.step_counts import (
    LINE_TO_ADD,
    CountsWriter,
    StepCounts,
    rates,
)
from gpu_report.user_training.step_watch import StepWatch, rank

_NO_STEP: Final = (
    "insufficient data: no step ended without an error; "
    f"put `{LINE_TO_ADD}` around each training step"
)
_WHERE_THE_CARD_IS: Final = (
    "gpu-report: the card of these steps comes when this session ends; to get it after the loop, "
    "put `with gpu_report.watch():` around the loop"
)
_WAIT: Final = "data wait"
_RESIDUAL: Final = "residual"
_WHERE_PAUSES_ARE_LONG: Final = (
    "if they are waits for data, give the DataLoader more worker processes (num_workers) or faster "
    "storage; if not, announce each: `with gpu_report.watch() as watched:`, watched.pause() before "
    "it and watched.resume() after it"
)
_WHEN_NOT_PROFILED: Final = (
    "leave out profile=False and any other profiler, run the steps in the main thread, and free "
    "some temporary space"
)
_PHASES: Final = {"data": "copies and loading in the step"}
"""Others are named as the trace tables name them."""
_SHOWN_FROM: Final = 0.005

_current: "list[Watched]" = []
"""The innermost `watch()` last; the process's own, if a step was made outside of any, first."""


@contextmanager
def step(*, samples: int | None = None) -> Iterator[None]:
    """Put `with gpu_report.step():` around each training step of a loop of yours, after the batch
    was loaded, or `@gpu_report.step()` before the function that trains one.

    The time between the end of a step and the beginning of the next is the wait for data. Blocks of
    steps are timed, then a few steps are profiled, up to three times. At the end of the process, or
    of `with gpu_report.watch():` around the loop, the card of `gpu_report.profile` is printed to
    standard error. Steps of other threads, steps inside of a step and those of all ranks but the
    first are not measured. What a step raises goes through unchanged.

    Args:
        samples: How many the step trains on in this process, for samples per second. The first
            block with a new batch size, such as that of an epoch's smaller last batch, is not
            timed.

    Raises:
        ProfileError: `samples` is not a positive whole number; raised where the step begins.
    """
    require_whole(samples=samples)
    samples = None if samples is None else int(samples)
    watched = _current[-1] if _current else _watch_of_process()
    is_measured = watched.begin()
    try:
        yield
    except BaseException:
        if is_measured:
            watched.drop()
        raise
    if is_measured:
        watched.end(samples)


class Watched(StepWatch):
    """What `watch()` has found; `pause` and `resume` say what is no training, such as an
    evaluation.

    Attributes:
        profile: As `gpu_report.profile` returns it; None before the end, and without a step.
    """

    profile: Profile | None = None

    def __init__(self, tensorboard: Path | str | None = None) -> None:
        folders = [] if tensorboard is None or rank() else [Path(tensorboard)]
        self._scalars = [Scalars(folder) for folder in folders]
        super().__init__(CountsWriter(), *self._scalars)
        _current.append(self)

    def close(self, *, has_card: bool = True) -> None:
        """Watch no more; print the card, unless nobody wants it. A step that has not ended is not
        in it. Once is enough.
        """
        if self not in _current:
            return
        _current.remove(self)
        if has_card:
            self.profile = _say_card(self)
        for each in self._scalars:
            each.close()


def _watch_of_process() -> Watched:
    """The watch of steps outside of any `watch()`, whose card comes where the process ends."""
    if hasattr(sys, "ps1"):  # in a notebook or another interactive session
        say(_WHERE_THE_CARD_IS, to_stderr=True)
    return Watched()


@contextmanager
def watch(*, tensorboard: Path | str | None = None, profile: bool = True) -> Iterator[Watched]:
    """Watch the steps of a loop, each in `with gpu_report.step():`, and print the card at the end
    of this block.

    Args:
        tensorboard: A folder to which step time, samples per second and the wait for data are
            written while the loop runs, about once a second, as scalars that `tensorboard --logdir`
            shows.
        profile: False if no step is to be profiled, for instance beside a profiler of your own.

    Raises:
        ProfileError: tensorboard is not installed, and a folder for it was given.
        FileWriteError: the folder cannot be written when the block begins; later the scalars end
            there, with a warning.
    """
    watched = Watched(tensorboard)
    if not profile:
        watched.blocks.trace_problem = "profile=False was given"
    try:
        yield watched
    finally:
        watched.close()


class Scalars:
    """Writes the rates since the last counts to an event file of TensorBoard, at each second's
    first end of a step.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ModuleNotFoundError as error:
            raise ProfileError(lacking(error)) from error

        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            name = f"events.out.tfevents.{time.time():.6f}.{gethostname()}.{os.getpid()}.gpu_report"
            self._file = (folder / name).open("xb")
        self._writer, self._event = RecordWriter(self._file), Event
        self._before: StepCounts | None = None
        self._write(file_version="brain.Event:2")

    def __call__(self, counts: StepCounts) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=f"watch/{name}", simple_value=value)
            for name, value in rates(self._before or counts, counts).items()
        ]
        self._before = counts
        if values:
            self._write(step=counts.steps, summary=Summary(value=values))

    def _write(self, **content: Any) -> None:
        if self._file.closed:
            return
        try:
            self._writer.write(self._event(wall_time=time.time(), **content).SerializeToString())
            self._file.flush()
        except OSError as error:
            say(
                f"gpu-report: the TensorBoard scalars stop here: {error}; free some space",
                to_stderr=True,
            )
            self.close()

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


@atexit.register
def _close_all() -> None:
    """Print the cards that are left when the process ends, of its own watch and of a trainer that
    failed, and keep the exit status of a script that Ctrl-C has ended.
    """
    if not _current:
        return
    with suppress(KeyboardInterrupt), ExitStack() as left:  # Ctrl-C cannot end what has ended
        for watched in reversed(_current):
            left.callback(watched.close)
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        # Any `exec` of what the card imports has made Python forget that Ctrl-C ended the script,
        # and its exit status.
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _say_card(step_watch: StepWatch) -> Profile | None:
    """Print the card to standard error; the first rank's alone, and never that of a fork."""
    if not step_watch.is_ours:
        return None
    try:
        found, lines = _card(step_watch)
    except (
        GpuReportError,
        MemoryError,
        OSError,
        RuntimeError,
    ) as error:  # as no folder, or a device that has failed
        found, lines = None, [f"gpu-report: error: {clean(str(error), keep='')}"]
    say("\n".join(lines), to_stderr=True)
    return found


def _card(step_watch: StepWatch) -> tuple[Profile | None, list[str]]:
    measured = step_watch.finish()
    if measured is None:
        return None, [_NO_STEP]
    profiled = RULES.profile_steps
    needed = FIRST_STEPS + measured.block_steps * BLOCKS_BEFORE_PROFILE + profiled + 1
    too_few = (
        f"{counted(measured.steps, 'step')} in "
        f"{counted(len(measured.block_times_ms), 'timed block')}, too few to time "
        "and profile",
        f"train for at least {count(needed).plain()} steps, more with DataLoader workers; between "
        f"two pauses at least {count(max(measured.block_steps, profiled)).plain()}",
    )
    if why := step_watch.blocks.trace_problem:
        too_few = (f"no step was profiled: {why}", _WHEN_NOT_PROFILED)
    found = analysed(measured, too_few=too_few)
    if step_watch.stalled_s > HALF * step_watch.looped_s:
        paused = _of_loop(step_watch.stalled_s, step_watch.looped_s)
        found = replace(
            found,
            problem=f"not resolved: pauses between steps took {paused}, and nothing says what for",
            remedy=_WHERE_PAUSES_ARE_LONG,
        )
    lines = [found.summary(), *_tree(found)]
    if step_watch.pauses:
        paused_s = step_watch.announced_s + step_watch.stalled_s
        lines += paragraph(
            "",
            f"not timed: {counted(step_watch.pauses, 'pause')} between steps, "
            f"{_of_loop(paused_s, step_watch.announced_s + step_watch.looped_s)}, such as "
            "evaluations or a loader that stalls",
        )
    if step_watch.ignored:
        lines += paragraph(
            "",
            f"not timed: {counted(step_watch.ignored, 'step')} in other threads or inside a step",
        )
    return found, lines


def _of_loop(part_s: float, loop_s: float) -> str:
    return (
        f"{duration(part_s).plain()} of {duration(loop_s).plain()} "
        f"({share(part_s / loop_s).plain()})"
    )


def _tree(found: Profile) -> list[str]:
    """What a step goes into: the wait, and the rest as the profiled steps divide it; the limit is
    marked.

    The wait is the timed one on the CPU. An accelerator may still work meanwhile, so there it is
    that of the profiled steps, which wait for the device, and without them there is no tree.
    """
    if found.data_wait.count < FEWEST_FOR_INTERVAL:
        return []
    inside, python = _parts_of_profiled_step(found)
    waited = (
        found.data_wait.value if found.measured.device == CPU else found.parts.get("loader", 0.0)
    )
    if found.measured.device != CPU and not inside:
        return []
    parts = {_WAIT: waited}
    parts |= {name: (1 - waited) * part for name, part in inside.items()} or {
        "the step itself": 1 - waited
    }
    marks = _marks(found, parts, python)
    shown = [name for name in parts if parts[name] >= _SHOWN_FROM]
    step_s = found.step_time_ms.value / 1e3
    lines = [f"step     {duration(step_s).plain()}"]
    for name in shown:
        branch = "└─" if name == shown[-1] else "├─"
        time_and_share = (
            f"{duration(parts[name] * step_s).plain():>9} {share(parts[name]).plain():>7}"
        )
        lines.append(
            f"         {branch} {_PHASES.get(name, name):31}{time_and_share}{marks.get(name, '')}"
        )
    return lines


def _marks(
    found: Profile, parts: Mapping[str, float], python: Mapping[str, float]
) -> dict[str, str]:
    """What follows a part of the tree: at the limit, or of several that are the limit at the
    largest; else nothing.
    """
    limit = max(found.parts, key=found.parts.__getitem__, default="")
    if found.problem or found.parts[limit] <= HALF:
        return {}
    inside = {name: part for name, part in parts.items() if name not in (_WAIT, _RESIDUAL)}
    of_limit: dict[str, Mapping[str, float]] = {
        "loader": {_WAIT: 1.0},
        "kernels": inside,
        "communication": inside,
        "transfer": {"data": 1.0},
    }
    among = of_limit.get(limit, python or inside)
    largest = max(among, key=among.__getitem__, default=_RESIDUAL)
    return {largest: f"  <- {'largest part of the ' if len(among) > 1 else ''}limit"}


def _parts_of_profiled_step(found: Profile) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the profiled steps without the wait, and what of each is no operation: by the
    phases of the device, or of the host where that sets the pace.

    A phase of the host has the Python between its operations, too, as in the step of median time.
    Residual is what is left: between two phases, and on a device while it waits. None where the
    trace cannot be trusted.
    """
    gate, device = Gate(found.rows), found.measured.device.partition(":")[0]
    steps = {row["step"]: row for row in gate.rows(STEPS, "wall_ms", "loader_ms")}
    inside_ms = sum(row["wall_ms"] - row["loader_ms"] for row in steps.values())
    phases = gate.rows(PHASES, "self_ms")
    lane = [row for row in gate.rows(TIMELINE, "end_ms") if row["lane"] == PHASE_LANE]
    if not phases or inside_ms <= 0 or not lane or lane[0]["step"] not in steps:
        return {}, {}
    is_launch_bound = max(found.parts, key=found.parts.__getitem__, default="") == "launch"
    if is_launch_bound or all(row["device"] != device for row in phases):
        device = HOST
    operations: defaultdict[str, float] = defaultdict(float)
    for row in phases:
        operations[row["phase"]] += row["self_ms"] / inside_ms * (row["device"] == device)
    lasted = operations.copy()
    if device == HOST:
        operations["data"] -= sum(row["loader_ms"] for row in steps.values()) / inside_ms
        step = steps[lane[0]["step"]]
        step_ms = step["wall_ms"] - step["loader_ms"]
        lasted = defaultdict(float, data=-step["loader_ms"] / step_ms)
        for row in lane:
            lasted_ms = (row["end_ms"] - row["begin_ms"]) * row["busy_share"]
            lasted[row["category"]] += lasted_ms / step_ms
        if max(operations.values()) < _SHOWN_FROM:  # no operation of its own
            return {}, {}
    lasted.pop(OTHER_PHASE, None)
    rest = {_RESIDUAL: max(1 - sum(lasted.values()), 0.0)}
    python = {phase: part - operations[phase] for phase, part in lasted.items()}
    return {**lasted, **rest}, {**python, **rest}
