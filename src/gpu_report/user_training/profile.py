"""What limits the training of your own model, in one call: `gpu_report.profile(model, batch,
loss=...)`.

own step -> measured in this process, which is left as it was -> trace tables and advice -> a card
of ten lines

A step is timed in blocks without any profiler, and a few more are profiled. Everything here is
about one process: its intervals hold the differences within it, and not those from one process to
the next, which a study measures.
"""

import math
import re
import statistics
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from pydantic_core import to_json

from gpu_report import __version__
from gpu_report.answers.phrases import CPU
from gpu_report.answers.question import HALF
from gpu_report.errors import ProfileError
from gpu_report.glossary import device_words
from gpu_report.measure.run import trace_name
from gpu_report.printing.number_format import (
    count,
    counted,
    duration,
    memory,
    quantity,
    ratio,
    share,
)
from gpu_report.printing.terminal import clean, say
from gpu_report.storage.files import write_bytes_atomically
from gpu_report.study.machine import core_count, cpu_model
from gpu_report.tables.marks import load_in_words
from gpu_report.tables.statistics import (
    FEWEST_FOR_INTERVAL,
    NOT_MEASURED,
    Summary,
    summarise,
)
from gpu_report.traces.advice import UNRECORDED, weigh
from gpu_report.traces.analysis import device_model
from gpu_report.traces.nesting import cover_of
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.quality import Gate
from gpu_report.traces.reading import read_trace
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import (
    EMPTY_TABLES,
    TraceTables,
    lost_device,
    slowness_of_profiled_steps,
    tabulate_trace,
)
from gpu_report.traces.timed import TimedStep, of_timed_steps
from gpu_report.traces.trace import HOST, Trace
from gpu_report.user_training.blocks import READY_TIMES, Measured
from gpu_report.user_training.card import Card
from gpu_report.user_training.run import measure_built_in, measure_own_step
from gpu_report.user_training.step_parts import PARTS_IN_WORDS, WAITING, parts_of_steps
from gpu_report.words import device_in_words

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn
    from torch.optim import Optimizer

    from gpu_report.user_training.workload import LossFunction

_WIDTH: Final = 100
_INDENT: Final = 9
_MOST_LINES: Final = 10
_MOST_ADVICE: Final = 3
_NOT_ABOUT_TIME: Final = frozenset({"peak memory"})
"""Any other rule without time at stake, such as short kernels while the GPU is never idle, is not
worth a line.
"""
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=\S)")
_LOOK: Final = "the page that to_html or --html writes shows where the time goes"
_ELSE_TRY: Final = {
    WAITING: "find the line that sleeps, reads, writes or waits for a lock, for instance with "
    "py-spy dump",
    PARTS_IN_WORDS[
        "kernels"
    ]: f"try torch.compile or bfloat16 (torch.autocast) and profile again; {_LOOK}",
    PARTS_IN_WORDS[
        "loader"
    ]: "give the DataLoader more worker processes (num_workers), or decode less per sample",
    PARTS_IN_WORDS[
        "launch"
    ]: "give each launch more work: a larger batch, torch.compile or CUDA graphs",
    PARTS_IN_WORDS["host"]: "give each operation more work: a larger batch, or torch.compile",
}
"""By the limit, for where no rule of the advice says more."""
_LOADER: Final = "data loader"
_PACED_BY_HOST: Final = frozenset({"host", "launch", "loader", "waiting"})
"""Parts whose time others on the same CPU can lengthen."""
_SEEN_FROM: Final = 0.05
"""Waiting below this share of a step is not worth a word."""
_BUSY_THREADS: Final = 0.25
"""CPU time of other Python threads, in that of the step, from which they may slow it."""
_STEPS_OF_A_TRAINING: Final = 100_000
"""Memory that grows, but lasts for this many steps, is not worth a word."""
_SHORT_US: Final = 10.0
"""Calling an operation takes 2 to 10 µs: Python, PyTorch's dispatcher, and the allocation of its
output.
"""
_OWN_PYTHON_NS: Final = 100_000
"""Python between two operations that takes at least this does more than call the second."""
_RISING_Z: Final = 3.09
"""Of the Mann-Kendall test; once in 1,000 times by chance. It takes eight blocks to pass it."""
_MOST_CATEGORIES: Final = 2
_SHOWN_FROM: Final = 0.005
_READING_S: Final = 5.0
"""Beside the steps: starting and reading the profile."""
_NEEDED_STEPS: Final = 11
"""Two to begin with, a block of warm-up, three timed, and a profile of three, each of which takes
longer.
"""


def profile(
    model: "nn.Module | str | None" = None,
    batch: Any = None,
    *,
    step: Callable[[], object] | None = None,
    loss: "LossFunction | None" = None,
    optimizer: "Optimizer | None" = None,
    loader: Iterable[Any] | None = None,
    samples: int | Callable[[Any], int] | None = None,
    dataset: str | None = None,
    batch_size: int | None = None,
    size: str | None = None,
    precision: str | None = None,
    workers: int | None = None,
    epochs: int | None = None,
    device: str = "auto",
    seconds: float = 60.0,
) -> "Profile":
    """Train a model for some steps, print what limits them and what to try, and leave everything as
    it was.

    Give a model with a batch, a loader or both, or `step` for any training step of your own
    (several optimizers, reinforcement learning, mixed precision), which takes no argument. A step
    begins with the next batch and ends when the optimizer has stepped and its gradients are gone.
    What `step` trains stays trained: only random numbers are restored there. In a process group
    every rank must call this; the first decides how many steps all of them train, and prints.

    Or give the name of a built-in workload with a batch size: `profile("resnet18", batch_size=64)`.
    Its model, data, loader and step are those that a study times, with the seed 0 and the
    workload's default settings. `profile()` alone profiles ResNet-18 on CIFAR-10.

    Args:
        model: Any torch.nn.Module that is built. It is trained in training mode. Or a name: unet,
            lstm, cnn (also simple_cnn, its medium size), transformer, gpt2, resnet18 or resnet50.
        batch: What each step trains on, with samples along the first axis of its tensors: a tensor,
            a tuple, a list or a mapping, nested as you like. With `loss` a pair (inputs, target),
            or a mapping. Inputs that are a tuple or a list are passed one by one, those of a
            mapping by their names. A batch on another device is copied in each step, which is part
            of the step's time.
        step: Trains one step each time it is called.
        loss: Called as `loss(model(inputs), target)`, of a mapping as `loss(model(**batch),
            batch)`; returns one number. Without it the model returns the loss: as one number, as
            `.loss` or `["loss"]`, or as the one number in a tuple.
        optimizer: Yours, on the model's parameters; unless given, AdamW with its defaults. It may
            have other parameters, too, which are left as they were.
        loader: An iterable of batches, for instance your DataLoader, which takes the place of
            `batch`; then the wait for data is measured too. Where it ends, it is iterated anew.
        samples: Of a step, or a function of the batch that returns them. Unless given, the length
            that all tensors of the batch have along their first axis; where they differ, or the
            batch is an object of its own kind, steps per second are reported.
        dataset: For a name: `synthetic`, the default, or for cnn, resnet18, resnet50 and
            transformer `cifar10`, which is read from results/data/cifar10 and downloaded there if
            it is missing. The transformer then trains on patches of pictures instead of texts.
        batch_size: For a name, which needs it: samples of a step.
        size: For a name: one of its sizes.
        precision: For a name: fp32, the default, tf32, fp16 or bf16.
        workers: For a name: DataLoader workers; 0 by default, which loads in this process.
        epochs: For a name: at most as many passes of the training set, where it is the limit and
            not `seconds`. A profile ends when it has measured enough, which is mostly earlier.
        device: `auto` is the model's accelerator, else the first of this machine, else the CPU;
            with `step` the accelerator if the trace shows work there. A model that is elsewhere
            goes there and comes back.
        seconds: The most that all of this takes, beside a single step that takes longer.

    Returns:
        What was measured, with the printed text in `summary()`.

    Raises:
        ProfileError: a part is missing or of another kind, a step raises (its exception is the
            cause), or a loss is not a finite number that needs gradients; in one line that names
            the part.
        ConfigError: no built-in workload has that name, or it has no such data set, size or
            precision.
        MachineError: there is no such device, or it cannot compute in the precision.
        WorkloadError: the data set of a name cannot be read, or holds less than a batch.
    """
    began_s = time.monotonic()
    if torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
        raise ProfileError(
            "profile: torch.profiler is running, which a second one would end; call this outside "
            "of it"
        )
    of_model: dict[str, Any] = {
        "batch": batch,
        "step": step,
        "loss": loss,
        "optimizer": optimizer,
        "loader": loader,
        "samples": samples,
    }
    of_name: dict[str, Any] = {
        "dataset": dataset,
        "batch_size": batch_size,
        "size": size,
        "precision": precision,
        "workers": workers,
        "epochs": epochs,
    }
    given = [name for name, value in of_name.items() if value is not None]
    if model is None and not given and all(each is None for each in of_model.values()):
        say("no model was given: this profiles resnet18 on cifar10 with a batch size of 64")
        model, of_name = "resnet18", {"dataset": "cifar10", "batch_size": 64}
    if isinstance(model, str):
        if unused := [name for name, value in of_model.items() if value is not None]:
            raise ProfileError(
                f"{', '.join(unused)}: given beside the name {model!r}; expected a model of your "
                "own"
            )
        measured = measure_built_in(model, of_name, device=device, began_s=began_s, seconds=seconds)
    else:
        if given:
            raise ProfileError(
                f"{', '.join(given)}: given without the name of a built-in workload; "
                "expected its name, such as resnet18, as the model"
            )
        measured = measure_own_step(
            model, **of_model, device_name=device, began_s=began_s, seconds=seconds
        )
    took_s = time.monotonic() - began_s
    of_epochs, no_limit = "", ""
    if epochs is not None:
        of_epochs, no_limit = f" and {counted(epochs, 'epoch')}", " and no limit of epochs"
    needed_s = math.ceil(_NEEDED_STEPS * measured.step_ms / 1e3 + _READING_S)
    too_few = (
        f"{counted(measured.steps, 'step')} in {duration(took_s).plain()}, and the steps still "
        f"needed do not fit into {seconds:g} s{of_epochs}",
        f"call again with {max(needed_s, math.ceil(2 * seconds))} seconds{no_limit}, or with a "
        "smaller batch or model",
    )
    found = analysed(measured, too_few=too_few)
    if measured.rank == 0:
        say(found.summary())
    return found


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """What to try, mostly a row of the trace table `advice`; at stake is a share of the steps'
    time, 0 if no time.
    """

    rule: str
    finding: str
    remedy: str
    at_stake: float
    """NaN where it was not measured."""

    @property
    def gain(self) -> float:
        """How many times as fast a step would be at most: as if all that is at stake took
        no time.
        """
        return 1 / (1 - self.at_stake) if self.at_stake < 1 else math.inf


@dataclass(frozen=True, kw_only=True, repr=False)
class Profile(Card):
    """What limits a training step; `print` shows the card.

    Attributes:
        measured: The device, how many samples a step has, the times of each block, memory, and the
            trace.
        parts: Share of a step by part: kernels, transfer, communication, loader, and launch (of a
            GPU) or host (of the CPU). On a GPU of the timed step (gpu_report.traces.timed), on the
            CPU of the profiled ones, but for the loader's. Without a trace that can be trusted, on
            the CPU the loader's alone where that is more than half of a step, else none.
        suggestions: What to try, the most severe first.
        problem: Why there is no limit, in a clause; empty where there is one.
        remedy: What to do about the problem.
        hardware: Model of the device; empty for a GPU that no trace names.
    """

    measured: Measured
    parts: Mapping[str, float]
    suggestions: Sequence[Suggestion]
    problem: str
    remedy: str
    hardware: str
    rows: TraceTables

    @property
    def limit(self) -> str:
        """The part that takes most of a step, in words; empty where there is a problem."""
        return "" if self.problem else PARTS_IN_WORDS[max(self.parts, key=self.parts.__getitem__)]

    @property
    def step_time_ms(self) -> Summary:
        """Mean over blocks of steps with its 95 % interval, which holds differences within this
        process alone.
        """
        return summarise(self.measured.block_times_ms, scale="amount")

    @property
    def throughput_per_s(self) -> Summary:
        """All samples over all time likewise, or steps where the number of samples is not known."""
        measured = self.measured
        samples = measured.block_samples or [measured.samples or 1.0] * len(measured.block_times_ms)
        return _over_time(samples, [time_ms / 1e3 for time_ms in measured.block_times_ms])

    @property
    def data_wait(self) -> Summary:
        """Share of all time in which the loop waited for the loader, likewise; not measured without
        a loader.
        """
        return _data_wait(self.measured)

    @property
    def trace(self) -> bytes:
        """The light profile as torch.profiler wrote it, gzipped and kept in memory; empty where no
        step was profiled.

        `Path("my.pt.trace.json.gz").write_bytes(found.trace)` keeps it as a file.
        """
        return self.measured.trace

    @cached_property
    def tables(self) -> "dict[str, pd.DataFrame]":
        """The trace tables by name; `gpu-report columns` explains them. A light profile has no
        shapes and no memory.
        """
        return {table.name: table.from_rows(rows) for table, rows in self.rows.items()}

    def summary(self) -> str:
        """The card: what limits the step, why, what to try next, and memory; 10 lines of at most
        100 characters.
        """
        before = [*paragraph("limit", self._verdict()), *paragraph("why", self._times())]
        if self.parts:
            parts = sorted(self.parts.items(), key=lambda part: -part[1])
            shares = ", ".join(
                f"{PARTS_IN_WORDS[name]} {share(part).plain()}"
                for name, part in parts
                if part >= _SHOWN_FROM
            )
            on = self.measured.device.partition(":")[0]
            rows = [
                row
                for row in Gate(self.rows).rows(CATEGORY_TIMES, "self_ms", "share")
                if row["device"] == on
                and parts[0][0] != "loader"
                and row["category"] != "data loading"  # is a part of its own
            ]
            where = " and ".join(
                f"{row['category']} ({share(row['share']).plain()})"
                for row in sorted(rows, key=lambda row: -row["self_ms"])[:_MOST_CATEGORIES]
            )
            if where:
                shares += f"; most {'operation' if on == CPU else 'GPU'} time: {where}"
            before += paragraph("", shares)
        kind = {"allocator": "PyTorch's allocator", "resident set": "resident set of this process"}
        after = paragraph(
            "memory",
            f"peak {memory(self.measured.memory_peak_mib).plain()} "
            f"({kind[self.measured.memory_kind]})",
        )
        for text in self._next():
            if len(before) + len(text) + len(after) > _MOST_LINES:
                break
            before += text
        return "\n".join([*before, *after])

    def _verdict(self) -> str:
        if self.problem:
            return self.problem
        most = max(self.parts.values())
        taken = (
            f"{self.limit}, {share(most).plain()} of a step on "
            f"{device_in_words(self.measured.device)}"
        )
        return taken if most > HALF else f"no single part: the largest is {taken}"

    def _times(self) -> str:
        measured, time_ms, rate = self.measured, self.step_time_ms, self.throughput_per_s
        blocks = len(measured.block_times_ms)
        if blocks < FEWEST_FOR_INTERVAL:
            steps = counted(measured.steps, "step")
            return (
                f"{duration(measured.step_ms / 1e3).plain()} a step when last timed, {steps} in all"
            )
        a_step = duration(time_ms.value / 1e3, low=time_ms.low / 1e3, high=time_ms.high / 1e3)
        unit = "samples/s" if measured.samples else "steps/s"
        per_s = quantity(rate.value, unit, low=rate.low, high=rate.high)
        doubts = [] if measured.has_settled else ["not settled: steps were still getting faster"]
        if not self.problem and (load := load_in_words([measured.load])):
            doubts.append(f"{load} meanwhile")
        return "; ".join(
            [
                f"{a_step.plain()} a step, {per_s.plain()}",
                f"95 % intervals over {blocks} blocks of {counted(measured.block_steps, 'step')} "
                "in one process",
                *doubts,
            ]
        )

    def _next(self) -> Iterator[list[str]]:
        """Paragraphs in the order of their importance."""
        texts = [self.remedy] if self.problem else []
        largest = max(self.parts.values(), default=0.0)
        if not texts and not any(each.at_stake >= largest / 2 for each in self.suggestions):
            texts = [_ELSE_TRY.get(self.limit, _LOOK)]  # nothing below is about what limits
        for each in self.suggestions[:_MOST_ADVICE]:
            stake = "no time of its own"
            if math.isnan(each.at_stake):
                stake = "what it costs was not measured"
            elif each.at_stake:
                stake = f"{share(each.at_stake).plain()} of the step at stake"
                if math.isfinite(each.gain):
                    stake += f", at most {ratio(each.gain).plain()} as fast"
            texts.append(f"{each.rule}, {stake}: {each.remedy}")
        for number, text in enumerate(texts):
            yield paragraph("" if number else "next", text)

    def to_json(self, path: Path | str) -> None:
        """Write all that the card says, with the times of each block; a number that was not
        measured is null.

        Raises:
            FileWriteError: the file cannot be written.
        """
        content = {
            "gpu_report": __version__,
            "limit": self.limit,
            **{name: getattr(self, name) for name in ("parts", "problem", "remedy", "hardware")},
            **{
                name: getattr(self, name)
                for name in ("step_time_ms", "throughput_per_s", "data_wait")
            },
            "suggestions": [
                {**asdict(each), "gain_at_most": each.gain} for each in self.suggestions
            ],
            "measured": {
                name: part for name, part in vars(self.measured).items() if name != "trace"
            },
        }
        write_bytes_atomically(Path(path), to_json(content, indent=2, inf_nan_mode="null") + b"\n")

    def to_html(self, path: Path | str) -> None:
        """Write one HTML file for a browser, which needs no network: card, blocks, timeline,
        operations and kernels.

        Raises:
            FileWriteError: the file cannot be written, or is there and gpu-report did not make it.
        """
        from gpu_report.page.profile import render_profile
        from gpu_report.page.shared import write_page

        measured, device = self.measured, device_words(self.measured.device)
        waits = measured.data_wait_shares or [math.nan] * len(measured.block_times_ms)
        blocks = zip(measured.block_times_ms, waits, measured.memory_in_use_mib, strict=True)
        text = render_profile(
            card=self.summary(),
            facts={
                "Device": f"{self.hardware} ({device})" if self.hardware else device,
                "Samples per step": "not known"
                if measured.samples is None
                else count(measured.samples).plain(),
                "PyTorch": measured.torch_version,
                "gpu-report": __version__,
            },
            blocks=[
                {
                    "block": number,
                    "time_ms": time_ms,
                    "data_wait_share": wait,
                    "in_use_mib": in_use_mib,
                }
                for number, (time_ms, wait, in_use_mib) in enumerate(blocks, start=1)
            ],
            parts=[
                {"part": PARTS_IN_WORDS[name], "share": part}
                for name, part in sorted(self.parts.items(), key=lambda part: -part[1])
            ],
            suggestions=[
                {
                    **asdict(each),
                    **(
                        {"gain": each.gain}
                        if each.at_stake
                        else {"at_stake": math.nan, "gain": math.nan}
                    ),
                }
                for each in self.suggestions
            ],
            gate=Gate(self.rows),
        )
        write_page(Path(path), text)


def paragraph(label: str, text: str) -> list[str]:
    """Lines with the label before the first."""
    bound = _BEFORE_UNIT.sub(_NO_BREAK, clean(text, keep=""))
    lines = textwrap.wrap(
        bound, _WIDTH, initial_indent=label.ljust(_INDENT), subsequent_indent=" " * _INDENT
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def analysed(measured: Measured, *, too_few: tuple[str, str]) -> Profile:
    """What was measured, with its trace read; `too_few` says what is missing, and what to do, where
    steps are.
    """
    rows, trace, device, model = _read(measured)
    measured = replace(measured, device=device)
    is_enough = len(measured.block_times_ms) >= FEWEST_FOR_INTERVAL
    as_timed, waited = _as_timed(rows, measured) if is_enough else (rows, math.nan)
    parts = _with_waiting(parts_of_steps(as_timed, device), measured, device)
    advice = [
        Suggestion(
            rule=row["rule"],
            finding=row["finding"],
            remedy=row["advice"]
            if row["rule"] != _LOADER or measured.loader_workers is None
            else _about_workers(measured.loader_workers, keeps_workers=measured.keeps_workers),
            at_stake=at_stake,
        )
        for at_stake, row in (weigh(as_timed, trace)[0] if trace is not None else [])
        if (at_stake or row["rule"] in _NOT_ABOUT_TIME) and row["rule"] != UNRECORDED
    ]
    suggestions = [
        *_this_process(measured, parts),
        *_growing_memory(measured),
        *_python(as_timed, trace, parts),
        *advice,
    ]
    if not parts and waited > HALF:
        parts = {"loader": waited}
    problem, remedy = _problem(measured, parts, Gate(as_timed), too_few, is_enough=is_enough)
    if problem and load_in_words([measured.load]):  # which may have taken the time at stake
        suggestions = [each for each in suggestions if not each.at_stake > 0]
    return Profile(
        measured=measured,
        parts=parts,
        suggestions=suggestions,
        problem=problem,
        remedy=remedy,
        hardware=cpu_model() if device == CPU else model,
        rows=rows,
    )


def _read(measured: Measured) -> tuple[TraceTables, Trace | None, str, str]:
    """The trace with its tables, none without a trace, the device and its model.

    Of a callable only the trace shows which device it is.
    """
    if not measured.trace:
        return EMPTY_TABLES, None, measured.device, ""
    with TemporaryDirectory() as folder:
        path = Path(folder, trace_name())
        path.write_bytes(measured.trace)
        trace = read_trace(path)
    device = CPU if measured.may_be_on_host and not trace.device else measured.device
    checks = [
        slowness_of_profiled_steps(measured.profile_overhead),
        *lost_device(device.partition(":")[0], trace),
    ]
    return tabulate_trace(trace, checks=checks), trace, device, device_model(trace)


def _as_timed(rows: TraceTables, measured: Measured) -> tuple[TraceTables, float]:
    """The tables with what the timed steps show, and in which share of their time these waited for
    the loader, NaN where nothing timed it.

    The profiler slows all of a step but the wait. On an accelerator no timed wait says how long
    nothing else went on.
    """
    if measured.device != CPU:
        return of_timed_steps(rows, TimedStep(measured.step_ms, measured.step_ms)), math.nan
    waited = _data_wait(measured).value
    if math.isnan(waited):
        return rows, waited
    steps = [
        {**row, "wall_ms": wall_ms, "loader_ms": wall_ms * waited}
        for row in rows[STEPS]
        for wall_ms in [(row["wall_ms"] - row["loader_ms"]) / (1 - waited)]
    ]
    return {**rows, STEPS: steps}, waited


def _data_wait(measured: Measured) -> Summary:
    """Share of the timed blocks in which the loop waited for the loader; each block counts by its
    time.
    """
    times_ms = measured.block_times_ms if measured.data_wait_shares else []
    found = _over_time([*map(mul, measured.data_wait_shares, times_ms)], times_ms)
    return replace(found, high=min(found.high, 1.0))


def _over_time(amounts: Sequence[float], times: Sequence[float]) -> Summary:
    """The sum of one amount per block over that of its time, with Student's t interval of a ratio
    estimator (Cochran, Sampling Techniques, 1977, chapter 6).
    """
    if not times:
        return NOT_MEASURED
    rate, mean_time = sum(amounts) / sum(times), statistics.fmean(times)
    found = summarise(
        [
            rate + (amount - rate * time_) / mean_time
            for amount, time_ in zip(amounts, times, strict=True)
        ],
        scale="amount",
    )
    return replace(found, low=max(found.low, 0.0))


def _with_waiting(parts: dict[str, float], measured: Measured, device: str) -> dict[str, float]:
    """The parts, with that of the host divided: the thread that trains was on the CPU, or waited.

    On the CPU all waiting but that for the loader and for other processes is the host's. On an
    accelerator the thread may as well have waited for the device, so only what it had no time on
    the CPU for is its waiting.
    """
    paced = "host" if device == CPU else "launch"
    if paced not in parts or math.isnan(measured.cpu_share):
        return parts
    waiting = parts[paced] - measured.cpu_share
    if device == CPU:
        others = parts.get("loader", 0.0) + parts.get("communication", 0.0)
        waiting = min(parts[paced], 1 - measured.cpu_share - others)
    if waiting < _SEEN_FROM:
        return parts
    return {**parts, paced: parts[paced] - waiting, "waiting": waiting}


def _this_process(measured: Measured, parts: Mapping[str, float]) -> Iterator[Suggestion]:
    """What else goes on in this process: other threads, whose work can make the step wait, a wait
    without the CPU, anomaly mode.
    """
    others = measured.other_threads_share
    if others >= _BUSY_THREADS:
        yield Suggestion(
            rule="other threads",
            finding=f"Other Python threads used {others:.2g} s of CPU time a second.",
            remedy=f"they used {others:.2g} s of CPU time a second and may have held the GIL: move "
            "their work into a process",
            at_stake=math.nan,
        )
    waiting = parts.get("waiting", 0.0)
    if waiting >= HALF:
        yield Suggestion(
            rule="waiting",
            finding=f"The step waited without using the CPU for {share(waiting).plain()} of it.",
            remedy=_ELSE_TRY[WAITING],
            at_stake=waiting,
        )
    if measured.has_anomaly_mode:
        yield Suggestion(
            rule="anomaly mode",
            finding="Autograd's anomaly mode is on.",
            remedy="it is on and slows every operation: torch.autograd.set_detect_anomaly(False)",
            at_stake=math.nan,
        )


def _about_workers(workers: int, *, keeps_workers: bool) -> str:
    """What to do about a loader that is waited for, by the worker processes that it has."""
    cores = core_count()
    fewer = "decode less per sample, or store what is decoded"
    if workers >= cores:
        return (
            f"its {counted(workers, 'worker')} have {counted(cores, 'core')}: {fewer}; workers "
            "that wait for files or a network may be more than the cores"
        )
    has = f"it has {workers} of at most {cores}, the cores here"
    keep = "" if keeps_workers else "; persistent_workers=True keeps them between epochs"
    return f"give the DataLoader more worker processes (num_workers): {has}{keep}; or {fewer}"


def _growing_memory(measured: Measured) -> Iterator[Suggestion]:
    """Memory in use that rises from block to block, by the Mann-Kendall test of a trend (Mann 1945,
    Kendall 1975).

    What a training still allocates as it warms up rises, too, but ever more slowly: what counts is
    the later half.
    """
    in_use_mib = measured.memory_in_use_mib
    blocks = len(in_use_mib)
    rises = sum(
        (after > before) - (after < before) for before, after in combinations(in_use_mib, 2)
    )
    if rises - 1 < _RISING_Z * math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18):
        return
    steps = blocks * measured.block_steps
    grown_mib = blocks * min(
        statistics.linear_regression(range(len(part)), part).slope
        for part in (in_use_mib, in_use_mib[blocks // 2 :])
    )
    steps_left = measured.memory_free_mib / grown_mib * steps if grown_mib > 0 else math.inf
    if steps_left < _STEPS_OF_A_TRAINING:
        grown = f"{memory(grown_mib).plain()} in {counted(steps, 'step')}"
        yield Suggestion(
            rule="growing memory",
            finding=f"Memory in use grew by {grown}.",
            remedy=(
                f"it grew by {grown} and is full after about "
                f"{count(float(f'{steps_left:.2g}')).plain()} more; keep "
                "loss.item() instead of losses and outputs, and clear what each step appends to"
            ),
            at_stake=0.0,
        )


def _python(
    rows: TraceTables, trace: Trace | None, parts: Mapping[str, float]
) -> Iterator[Suggestion]:
    """On the CPU, where most of a step is Python, or operations that take hardly longer than
    calling them does.
    """
    if trace is None or "host" not in parts:
        return
    called, stretches = cover_of(trace.calls), []
    for begin_ns, end_ns in zip(*trace.step_bounds, strict=True):
        inside = (called.end_ns > begin_ns) & (called.start_ns < end_ns)
        starts = np.append(begin_ns, called.end_ns[inside])
        ends = np.append(called.start_ns[inside], end_ns)
        stretches.append(np.maximum(ends - starts, 0))
    lengths_ns = np.concatenate(stretches)  # in which nothing is called
    own_ns = lengths_ns[lengths_ns >= _OWN_PYTHON_NS].sum()
    of_step = parts["host"] * float(own_ns / max(lengths_ns.sum(), 1))
    if parts["host"] >= HALF and of_step >= parts["host"] / 2:
        yield Suggestion(
            rule="Python of the step",
            finding=f"Python that calls no operation took {share(of_step).plain()} of the time.",
            remedy="find the functions that take it with cProfile or py-spy, and move them out of "
            "the step",
            at_stake=of_step,
        )
    operations = [
        row for row in Gate(rows).rows(OPERATIONS, "calls", "self_ms") if row["device"] == HOST
    ]
    all_ms = sum(row["self_ms"] for row in operations)
    short_ms = sum(
        row["self_ms"] for row in operations if row["self_ms"] * 1e3 < _SHORT_US * row["calls"]
    )
    at_stake = (
        parts["host"] - of_step + parts.get("kernels", 0.0) * (short_ms / all_ms if all_ms else 0.0)
    )
    if at_stake >= HALF:
        yield Suggestion(
            rule="short operations",
            finding=(
                f"Python and operations of less than {_SHORT_US:g} µs took "
                f"{share(at_stake).plain()} of the time."
            ),
            remedy=_ELSE_TRY[PARTS_IN_WORDS["host"]],
            at_stake=at_stake,
        )


def _problem(
    measured: Measured,
    parts: Mapping[str, float],
    gate: Gate,
    too_few: tuple[str, str],
    *,
    is_enough: bool,
) -> tuple[str, str]:
    """Why no limit can be named, and what to do; two empty texts where one can."""
    if parts and is_enough:
        largest = max(parts, key=parts.__getitem__)
        # Where the clock counts waits for a turn on the CPU, others do not lengthen what is left.
        sleeps = (largest, measured.device) == ("waiting", CPU) and READY_TIMES.exists()
        load = load_in_words([measured.load])
        if load and not sleeps and (measured.device == CPU or largest in _PACED_BY_HOST):
            return (
                f"not resolved: {load}, which paces this step",
                "measure again when nothing else runs on this machine",
            )
        return "", ""
    if not (is_enough and measured.trace):
        problem, remedy = too_few
        return f"insufficient data: {problem}", remedy
    why = "; ".join(row["text"] for row in gate.failed) or "the trace shows no time of the steps"
    return (
        f"not resolved: {why}",
        "measure again when nothing else runs on this machine, or with a larger batch",
    )
