"""Which optimizations pay for a model of your own: `gpu_report.compare_options(build, batch,
loss=...)`.

baseline -> each option individually -> those that apply cumulatively -> speedups, with the loss
after the same steps

From a function that builds the model, each is measured in several fresh processes, in turns:
intervals hold the differences from process to process. A model that is built is copied and measured
in this process, without an interval: blocks of one process are more alike than processes. No
speedup is given where other programs used the CPU while it or the baseline was timed.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from torch import nn

from gpu_report.errors import ProfileError
from gpu_report.measure.run import Stopped
from gpu_report.printing.number_format import duration, exact, quantity, ratio
from gpu_report.printing.terminal import clean, say
from gpu_report.study.options import OPTIONS
from gpu_report.tables import statistics as intervals
from gpu_report.tables.marks import load_in_words
from gpu_report.tables.statistics import Summary, summarise
from gpu_report.user_training.arguments import require_positive, require_whole
from gpu_report.user_training.card import Card
from gpu_report.user_training.process import (
    Factory,
    OwnResult,
    OwnTraining,
    own_server,
    train_in_fresh_process,
    train_in_this_process,
)

_PRECISIONS: Final[Mapping[str, str]] = {"tf32": "TF32", "bf16": "bf16 (torch.autocast)"}
_OPTIONS: Final = ("pinned", "channelslast", "fused", "graphs", "compile")
TRIED: Final = (*_PRECISIONS, *_OPTIONS)
"""In this order unless others are named; names and titles are those of a study."""
_TITLES: Final = {**_PRECISIONS, **{name: OPTIONS[name].title for name in _OPTIONS}}
_BASELINE: Final = "eager fp32 baseline"
_WIDTH: Final = 120
_LEAST_GAIN: Final = 22
_LOSS: Final = 12
_HEAD: Final = f"{'process':<10}{'time':<12}options"

_Train = Callable[[OwnTraining], OwnResult | Stopped]


@own_server()
def compare_options(
    model: nn.Module | Factory,
    batch: Any,
    *,
    loss: Factory | None = None,
    optimizer: Factory | None = None,
    options: Sequence[str] = TRIED,
    metric: Factory | None = None,
    device: str = "auto",
    processes: int = 4,
    steps: int = 20,
    seconds: float = 3.0,
) -> "OptionGains":
    """Train with each option individually and with all up to it, and print each process as it ends,
    then how many times as fast as without any.

    The baseline is eager fp32 without TF32. An option that does not apply is listed with the
    reason.

    Args:
        model: A function that builds it, or its name as `module:function`: then each process is a
            fresh one, and a script calls this under `if __name__ == "__main__":`. Or a model that
            is built, which is copied.
        batch: A batch, or a function that makes it, likewise.
        loss: Called as `loss(output, target)`; without it the model returns the loss.
        optimizer: Takes the parameters and returns the optimizer; unless given, AdamW with its
            defaults.
        options: Some of tf32, bf16, pinned, channelslast, fused, graphs and compile, in the order
            in which they are added up.
        metric: Takes the model after `steps` steps and returns a number to print beside the loss.
        device: As PyTorch names it; `auto` is the first accelerator, else the CPU.
        processes: Of each combination; from three on there are 95 % intervals.
        steps: After which the loss is compared, before the timed ones; each process has a seed of
            its own, which is the same for all options.
        seconds: To time one process, beside starting, compiling and the steps before.

    Raises:
        ProfileError: the model cannot be trained without any option, or a part is of another kind.
    """
    unknown = [name for name in options if name not in TRIED]
    if unknown or len(set(options)) < len(options):
        given = unknown[0] if unknown else next(name for name in options if options.count(name) > 1)
        raise ProfileError(
            f"options: {given!r} is {'unknown' if unknown else 'given twice'}; use "
            f"{', '.join(TRIED)}"
        )
    if not options:
        raise ProfileError(f"options: none was given; use some of {', '.join(TRIED)}")
    require_whole(processes=processes, steps=steps)
    require_positive(seconds=seconds)
    is_fresh = isinstance(model, str | type) or not hasattr(model, "parameters")
    common = OwnTraining(
        build=model if is_fresh else lambda: deepcopy(model),
        make_batch=batch,
        loss=loss,
        optimizer=optimizer,
        metric=metric,
        device=device,
        loss_steps=steps,
        seconds=seconds,
    )
    say(_HEAD)
    train: _Train = train_in_fresh_process if is_fresh else train_in_this_process
    found = OptionGains(
        results=_measured(common, options, train, processes if is_fresh else 1), is_fresh=is_fresh
    )
    say(f"\n{found.summary()}")
    return found


_Results = Mapping[tuple[str, ...], Sequence[OwnResult | Stopped]]
"""By the options that were on, in their order: one result per process."""


def _measured(
    common: OwnTraining, options: Sequence[str], train: _Train, processes: int
) -> _Results:
    """In turns, so that what changes on the machine meanwhile changes all alike; each is printed as
    it ends.
    """

    def trained(names: Sequence[str], seed: int = 0) -> OwnResult | Stopped:
        began_s = time.monotonic()
        precisions = [name for name in names if name in _PRECISIONS]
        result = train(
            replace(
                common,
                precision=precisions[-1] if precisions else "fp32",
                options=tuple(name for name in names if name not in _PRECISIONS),
                seed=seed,
            )
        )
        took = duration(time.monotonic() - began_s).plain()
        which = " + ".join(_TITLES[name] for name in names) or _BASELINE
        found = (
            result.reason
            if isinstance(result, Stopped)
            else quantity(_rate(result), _unit(result)).plain()
        )
        number = f"{seed + 1} of {processes}"
        say(_in_width(f"{number:<10}{took:<12}{which}: {found}"))
        return result

    results: dict[tuple[str, ...], list[OwnResult | Stopped]] = {(): [trained(())]}
    baseline = results[()][0]
    if isinstance(baseline, Stopped):
        raise ProfileError(f"the model cannot be trained without any option: {baseline.reason}")
    for name in options:
        results[name,] = [trained((name,))]
    applied = _applied(results)
    for number in range(2, len(applied) + 1):
        results[tuple(applied[:number])] = [trained(applied[:number])]
    for process in range(1, processes):
        for names, of_processes in results.items():
            if isinstance(of_processes[-1], OwnResult):
                of_processes.append(trained(names, process))
    return results


def _applied(results: _Results) -> list[str]:
    """The options that a first process could train with, in the order in which they are
    added up.
    """
    return [
        names[0]
        for names, each in results.items()
        if len(names) == 1 and isinstance(each[0], OwnResult)
    ]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How many times as fast as without any option, and the mean loss and metric after the same
    steps.

    `reason` says why a process failed; the rest is from those before it, or NaN. `load` says what
    other programs used of the CPU where that could explain the speedup, which then shows nothing.
    """

    speedup: Summary
    loss: float
    metric: float
    reason: str = ""
    load: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class OptionGains(Card):
    """What each option gains individually and with those before it; `print` shows the table."""

    results: _Results
    is_fresh: bool

    @property
    def baseline(self) -> Summary:
        """Samples per second without any option."""
        return summarise([*map(_rate, self._measured(()))])

    @property
    def individual(self) -> dict[str, Gain]:
        """By the option."""
        return {names[0]: self._gain(names) for names in self.results if len(names) == 1}

    @property
    def cumulative(self) -> dict[str, Gain]:
        """By the option that was added last."""
        applied = _applied(self.results)
        return {
            name: self._gain(tuple(applied[:number]))
            for number, name in enumerate(applied, start=1)
        }

    def _measured(self, *combinations: tuple[str, ...]) -> list[OwnResult]:
        results = chain.from_iterable(self.results[names] for names in combinations)
        return [each for each in results if isinstance(each, OwnResult)]

    def _gain(self, names: tuple[str, ...]) -> Gain:
        *before, last = self.results[names]
        reason = last.reason if isinstance(last, Stopped) else ""
        if reason and before:
            reason = f"process {len(before) + 1} failed: {reason}"
        found, plain = self._measured(names), self._measured(())
        by_seed = [*zip(map(_rate, found), map(_rate, plain), strict=False)]
        return Gain(
            speedup=intervals.ratio(
                {seed: rate for seed, (rate, _) in enumerate(by_seed)},
                {seed: rate for seed, (_, rate) in enumerate(by_seed)},
            ),
            loss=statistics.fmean(each.loss for each in found) if found else math.nan,
            metric=statistics.fmean(each.metric for each in found) if found else math.nan,
            reason=reason,
            load=load_in_words([each.measured.load for each in [*found, *plain]]),
        )

    @property
    def problem(self) -> str:
        """Why some or all speedups are not given; empty where all are."""
        load = load_in_words([each.measured.load for each in self._measured(*self.results)])
        return load and f"{load} while options were timed; compare again when nothing else runs"

    def summary(self) -> str:
        """A line for each option, and what the intervals are over."""
        cumulative, plain = self.cumulative, self._gain(())
        has_metric = not math.isnan(plain.metric)
        value = self.baseline
        rate = quantity(
            value.value, _unit(self._measured(())[0]), low=value.low, high=value.high
        ).plain()
        width = max(len(_BASELINE), *(len(_TITLES[name]) for name in self.individual)) + 2
        words = [
            _in_words(gain) for gains in (self.individual, cumulative) for gain in gains.values()
        ]
        gain_width = max(_LEAST_GAIN, *(len(each) + 2 for each in words))
        heads = ["loss", "cumulative", *(["metric", "cumulative"] if has_metric else [])]
        lines = [
            f"{'option':<{width}}{'individual':<{gain_width}}{'cumulative':<{gain_width}}"
            + _in_columns(heads),
            f"{_BASELINE:<{width}}{rate:<{2 * gain_width}}"
            + _in_columns(
                [_shown(plain.loss), "", *([_shown(plain.metric)] if has_metric else [])]
            ),
        ]
        lines += [f"  {plain.reason}"] * bool(plain.reason)
        for name, gain in self.individual.items():
            if name not in cumulative:
                lines.append(f"{_TITLES[name]:<{width}}not measured: {gain.reason}")
                continue
            both = [gain, cumulative[name]]
            numbers = [each.loss for each in both] + [each.metric for each in both if has_metric]
            gains = "".join(f"{_in_words(each):<{gain_width}}" for each in both)
            lines.append(f"{_TITLES[name]:<{width}}{gains}" + _in_columns(map(_shown, numbers)))
            lines += [
                f"  {reason}" for reason in dict.fromkeys(each.reason for each in both) if reason
            ]
        problem = [f"not resolved: {self.problem}"] if self.problem else []
        return "\n".join(map(_in_width, [*lines, self._note(), *problem]))

    def _note(self) -> str:
        if self.is_fresh:
            processes, needed = len(self.results[()]), intervals.FEWEST_FOR_INTERVAL
            if processes < needed:
                return (
                    f"no intervals: they need {needed} fresh processes each, and processes= is "
                    f"{processes}"
                )
            return f"intervals are over {processes} fresh processes each, run in turns"
        return "no intervals: they need several processes, so pass a function that builds the model"


def _rate(result: OwnResult) -> float:
    return (result.measured.samples or 1.0) * 1e3 / result.measured.step_ms


def _unit(result: OwnResult) -> str:
    return "samples/s" if result.measured.samples else "steps/s"


def _in_width(line: str) -> str:
    cleaned = clean(line, keep="")
    return cleaned.rstrip() if len(cleaned) <= _WIDTH else f"{cleaned[: _WIDTH - 1]}…"


def _in_columns(texts: Iterable[str]) -> str:
    return "".join(f"{text:<{_LOSS}}" for text in texts)


def _in_words(gain: Gain) -> str:
    if not gain.speedup.count:
        return "failed"
    if gain.load:
        return "not resolved"
    return ratio(gain.speedup.value, low=gain.speedup.low, high=gain.speedup.high).plain()


def _shown(value: float) -> str:
    return "" if math.isnan(value) else exact(float(f"{value:.5g}")).plain()
