"""Which batch size for a model of your own: `gpu_report.find_batch_size(build, make_batch,
loss=...)`.

1, 32, 1024 samples ... -> memory per sample -> close to the limit -> bracket of 2 % -> sizes
between, for the speed

Each number of samples is tried in a fresh process, so one that runs out of memory or fails
otherwise costs nothing but its time. Speed is that of one process each: the intervals hold the
differences between its blocks of steps.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpu_report.errors import ProfileError
from gpu_report.measure.run import PATIENCE_S, Stopped
from gpu_report.own.named_step import require_built_in
from gpu_report.own.process import (
    Factory,
    OwnResult,
    OwnTraining,
    is_built_in,
    own_server,
    require_positive,
    train_in_fresh_process,
)
from gpu_report.printing.number_format import count, counted, memory, share, throughput
from gpu_report.printing.terminal import clean, say
from gpu_report.study.search import NEAR, RESOLUTION
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL, Summary, summarise

MOST_PROBES: Final = 12
_GROWTH: Final = 32
_SEEN: Final = 0.05
"""Memory is extrapolated once the samples have taken this part of what was left for them."""
_BELOW: Final = 0.98
_BELOW_ONCE_KNOWN: Final = 0.99
_STEPS_BACK: Final = (1.06, 1.2, 1.5)
"""From the first size that runs out of memory although it was predicted to fit, and so on."""
_OF_LINE: Final = 2
"""Two sizes that fit do not show whether memory bends; after two that do not fit the middle of both
is tried.
"""
_MIB_PER_GIB: Final = 1024
_WIDTH: Final = 100
_RULE_OF_THUMB: Final = (
    "rule of thumb for k times the samples: learning rate times k (Goyal et al. 2017) or sqrt(k) "
    "(Krizhevsky 2014)"
)


@own_server()
def find_batch_size(
    build: Factory,
    make_batch: Factory | None = None,
    *,
    loss: Factory | None = None,
    optimizer: Factory | None = None,
    checkpoint: Factory | None = None,
    size: str | None = None,
    device: str = "auto",
    precision: str = "fp32",
    accumulate: int = 1,
    memory_limit: float | None = None,
    seconds: float = 5.0,
    patience: float = PATIENCE_S,
) -> "BatchSizes":
    """Find the largest batch that fits, the fastest, and the smallest that is about as fast, and
    print all tries.

    Functions must be importable, since a fresh process builds the model anew for each of at most 12
    tries: give a function of a module, or its name as `module:function`. A script calls this under
    `if __name__ == "__main__":`.

    Args:
        build: Takes nothing and returns the model; or the name of a built-in workload, such as
            unet, which brings batches, loss and optimizer.
        make_batch: Takes the number of samples and returns a batch: a pair (inputs, target) with
            `loss`, or else what the model is called with.
        loss: Called as `loss(output, target)`; without it the model returns the loss.
        optimizer: Takes the parameters and returns the optimizer, such as `functools.partial(SGD,
            lr=0.1)`; unless given, AdamW with its defaults.
        checkpoint: Takes the model and returns those of its modules whose activations are computed
            again in the backward pass.
        size: Of a built-in workload, such as 128px.
        device: As PyTorch names it; `auto` is the first accelerator, else the CPU.
        precision: fp32 (without TF32), tf32, bf16 or fp16, the last two by autocast.
        accumulate: Batches whose gradients one step adds up; the sizes are those of one batch.
        memory_limit: In GiB; unless given, or if it is more, what is free on the device now, on the
            CPU within the control group. There it limits the resident set of the process.
        seconds: To measure one batch size, beside starting the process; slow steps take longer, see
            `patience`.
        patience: Seconds after which a try that does not answer has failed. A size whose steps are
            too slow for four timed ones in half of it is in neither of the answers about speed.

    Raises:
        ProfileError: one sample does not fit or cannot be trained, or a part is of another kind.
        ConfigError: there is no built-in workload of that name.
    """
    if is_built_in(build):
        require_built_in(build)
        if accumulate != 1 or any(
            each is not None for each in (make_batch, loss, optimizer, checkpoint)
        ):
            raise ProfileError(
                f"{build}: a built-in workload brings all of its training; leave out make_batch=, "
                "loss=, optimizer=, checkpoint= and accumulate="
            )
    else:
        _require_functions(build=build, make_batch=make_batch)
        if size is not None:
            raise ProfileError(
                f"size: {size!r} was given; expected it only with a built-in workload"
            )
    require_positive(memory_limit=memory_limit, seconds=seconds, patience=patience)
    training = OwnTraining(
        build=build,
        make_batch=make_batch,
        size=size,
        loss=loss,
        optimizer=optimizer,
        checkpoint=checkpoint,
        device=device,
        precision=precision,
        accumulate=accumulate,
        memory_limit_mib=None if memory_limit is None else memory_limit * _MIB_PER_GIB,
        seconds=seconds,
        least_s=patience / 2,
    )
    probes: list[Probe] = []
    for probe in tries(training, patience_s=patience):
        probes.append(probe)
        if len(_fitting(probes)) == 1 and probes[-1].fits:
            say("\n".join([HEAD, *(each.row() for each in probes)]))
        elif _fitting(probes):
            say(probes[-1].row())
        elif _is_hopeless(probes):
            stopped = probe.stopped
            if stopped.status == "oom":
                limit = (
                    ""
                    if memory_limit is None
                    else f", limited to {memory_limit:g} GiB or what is free,"
                )
                raise ProfileError(
                    f"the model does not fit into memory{limit} with "
                    f"{counted(probe.samples, 'sample')}: {_asked(stopped) or stopped.reason}"
                )
            raise ProfileError(f"the model cannot be trained: {stopped.reason}")
    found = BatchSizes(probes=probes)
    say(found.answers())
    return found


def tries(training: OwnTraining, *, patience_s: float) -> Iterator["Probe"]:
    """Each number of samples once it is tried, at most 12 of them; none of them fits where it ends
    by a failure.

    Raises:
        ProfileError: a function cannot be sent to another process.
    """
    probes: list[Probe] = []
    while len(probes) < MOST_PROBES and (samples := next_samples(probes)) is not None:
        result = train_in_fresh_process(replace(training, samples=samples), patience_s=patience_s)
        probes.append(Probe(samples, result))
        yield probes[-1]
        if not _fitting(probes) and _is_hopeless(probes):
            return


def _require_functions(**functions: object) -> None:
    for name, function in functions.items():
        is_built = hasattr(function, "state_dict") and not isinstance(function, type)
        if is_built or not (isinstance(function, str) or callable(function)):
            raise ProfileError(
                f"{name}: it is a {type(function).__name__}; expected a function, or its name as "
                "module:function, since each try is a fresh process"
            )


def _is_hopeless(probes: Sequence["Probe"]) -> bool:
    """With one sample some layers cannot be trained, such as a batch normalization; two show
    whether that is why.
    """
    return probes[-1].stopped.status != "failed" or probes[-1].samples > 1


HEAD: Final = f"{'samples':>9}  {'samples/s':<32}{'peak memory':<14}outcome"


@dataclass(frozen=True)
class Probe:
    """A number of samples, and what came of it in a fresh process."""

    samples: int
    result: OwnResult | Stopped

    @property
    def fits(self) -> bool:
        return isinstance(self.result, OwnResult)

    @property
    def fitting(self) -> OwnResult:
        assert isinstance(self.result, OwnResult)
        return self.result

    @property
    def stopped(self) -> Stopped:
        assert isinstance(self.result, Stopped)
        return self.result

    @property
    def has_interval(self) -> bool:
        return len(self.fitting.measured.block_times_ms) >= FEWEST_FOR_INTERVAL

    @property
    def peak_mib(self) -> float:
        return self.fitting.measured.memory_peak_mib

    @property
    def throughputs_per_s(self) -> list[float]:
        """That of each block; of a step that is too slow for blocks, its own."""
        measured = self.fitting.measured
        return measured.throughputs_per_s or [
            (measured.samples or self.samples) * 1e3 / measured.step_ms
        ]

    @property
    def throughput_per_s(self) -> Summary:
        """Over the blocks of one process; of a step that is too slow for blocks, without an
        interval.
        """
        return summarise(self.throughputs_per_s)

    def row(self) -> str:
        """A line of the table, no longer than a terminal is wide."""
        rate, peak, outcome = "", "", "fits"
        if self.fits:
            per_s = self.throughput_per_s
            rate = (
                throughput(per_s.value, low=per_s.low, high=per_s.high)
                .plain()
                .replace(" samples/s", "")
            )
            peak = memory(self.peak_mib).plain()
        elif self.stopped.status == "oom":
            outcome = ", ".join(filter(None, ("out of memory", _asked(self.stopped))))
        else:
            rate, outcome = f"failed: {self.stopped.reason}", ""
        line = clean(f"{count(self.samples).plain():>9}  {rate:<32}{peak:<14}{outcome}", keep="")
        return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def _asked(stopped: Stopped) -> str:
    asked_mib = stopped.out_of_memory and stopped.out_of_memory.asked_mib
    return f"asked for {memory(asked_mib).plain()} more" if asked_mib else ""


@dataclass(frozen=True, kw_only=True)
class BatchSizes:
    """Three answers, and the tries that they are from, in their order; `print` shows all of it."""

    probes: Sequence[Probe]

    @property
    def largest(self) -> Probe:
        """The largest that fits, and within 2 % the largest there is where `is_resolved`."""
        return max(_fitting(self.probes), key=_samples)

    @property
    def smallest_too_large(self) -> Probe | None:
        """The first that failed above it, by running out of memory or otherwise."""
        return _first_failing(self.probes)

    @property
    def is_resolved(self) -> bool:
        return _is_bracket(self.largest.samples, self.smallest_too_large)

    @property
    def headroom(self) -> float:
        """Share of the memory that the largest leaves."""
        return 1 - self.largest.fitting.memory_taken_mib / self.largest.fitting.memory_limit_mib

    @property
    def fastest(self) -> Probe:
        """The most samples per second."""
        return max(_timed(self.probes), key=lambda each: each.throughput_per_s.value)

    @property
    def smallest_near_fastest(self) -> Probe:
        """The smallest tried that reaches 95 % of that."""
        return _smallest_near(_timed(self.probes))

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """The tries by their number of samples, and the answers."""
        rows = [each.row() for each in sorted(self.probes, key=lambda each: each.samples)]
        return "\n".join([HEAD, *rows, self.answers()])

    def answers(self) -> str:
        """The three answers with their evidence, and the rule of thumb for the learning rate."""
        largest, over, near = self.largest, self.smallest_too_large, self.smallest_near_fastest
        limit_mib = largest.fitting.memory_limit_mib
        why = "no larger one was tried"
        if over is not None:
            outcome = (
                "ran out of memory"
                if over.stopped.status == "oom"
                else clean(f"failed: {over.stopped.reason}", keep="")
            )
            why = f"{count(over.samples).plain()} {outcome}"
        fits = count(largest.samples).plain()
        upto = (
            f"{fits} or more"
            if over is None
            else f"from {fits} to {count(over.samples - 1).plain()}"
        )
        unresolved = (
            f"{'':10}not resolved after {len(self.probes)} tries: the true largest is {upto}; "
            f"take {fits}, or "
            "search again with a lower memory limit"
        )
        slower = max(
            (each for each in _timed(self.probes) if each.samples < near.samples),
            key=_samples,
            default=None,
        )
        gap = ""
        if slower is not None:
            lost = 1 - slower.throughput_per_s.value / self.fastest.throughput_per_s.value
            gap = (
                f"; {count(slower.samples).plain()} was {share(lost).plain()} slower than the "
                "fastest"
            )
        untimed = [
            count(each.samples).plain() for each in _fitting(self.probes) if not each.has_interval
        ]
        without = (
            f"; without {' and '.join(untimed)}, too slow for {FEWEST_FOR_INTERVAL} blocks"
            if untimed
            else ""
        )
        rate = throughput(self.fastest.throughput_per_s.value).plain()
        return "\n".join(
            [
                f"largest   {fits}, {share(self.headroom).plain()} of {memory(limit_mib).plain()} "
                f"left; {why}",
                *([] if self.is_resolved else [unresolved]),
                f"fastest   {count(self.fastest.samples).plain()}, {rate} (intervals over blocks "
                f"of one process){without}",
                f"smallest  {count(near.samples).plain()}, within {share(1 - NEAR).plain()} of "
                f"the fastest{gap}",
                _RULE_OF_THUMB,
            ]
        )


def next_samples(probes: Sequence[Probe]) -> int | None:
    """What to try next: first for the largest that fits, then for the speed of sizes between; None
    at the end.
    """
    fitting = _fitting(probes)
    if not fitting:
        return 1 + len(probes)
    over = _first_failing(probes)
    if not _is_bracket(fitting[-1].samples, over):
        return _next_for_largest(fitting, over, probes)
    between = _next_for_speed(_timed(probes))
    return None if between in [each.samples for each in probes] else between


def _next_for_largest(fitting: Sequence[Probe], over: Probe | None, probes: Sequence[Probe]) -> int:
    low = fitting[-1].samples
    predicted = _predicted(fitting)
    if over is None:
        if predicted is None:
            return low * _GROWTH
        bound, is_extrapolated = predicted
        if is_extrapolated:
            return max(low + 1, min(int(bound / 2), low * _GROWTH))
        return _close_to(bound, low, is_known=low > bound / 2)
    high = over.samples
    middle = math.isqrt(low * high)
    if over.stopped.status == "oom":
        if not probes[-1].fits and predicted is not None:
            overs = sum(not each.fits and each.samples > low for each in probes)
            if overs == 1 or len(fitting) > _OF_LINE:
                middle = max(middle, int(high / _STEPS_BACK[min(overs, len(_STEPS_BACK)) - 1]))
        elif predicted is not None and low < predicted[0] < high:
            middle = _close_to(predicted[0], low, is_known=True)
    return min(max(middle, low + 1), high - 1)


def _close_to(bound: float, low: int, *, is_known: bool) -> int:
    """A size that fits by a small margin; once one does, the size whose failure ends the search."""
    if bound <= low * RESOLUTION:
        return int(low * RESOLUTION) + 1
    return max(low + 1, int(bound * (_BELOW_ONCE_KNOWN if is_known else _BELOW)))


def _predicted(fitting: Sequence[Probe]) -> tuple[float, bool] | None:
    """How many samples fill the memory, and whether that is far off; None where it did not grow.

    Memory grows as from half the largest that fits, or faster where it has grown faster from a
    quarter to half of it, as where each sample is compared with all others: then along the parabola
    through the three.
    """
    large, middle = fitting[-1], _half(fitting)
    grown_mib, left_mib = (
        large.peak_mib - middle.peak_mib,
        max(0, large.fitting.memory_limit_mib - large.peak_mib),
    )
    if grown_mib <= 0:
        return None
    per_sample_mib, bend_mib = grown_mib / (large.samples - middle.samples), 0.0
    small = _half([each for each in fitting if each.samples <= middle.samples])
    if small.samples < middle.samples:
        before_mib = (middle.peak_mib - small.peak_mib) / (middle.samples - small.samples)
        bend_mib = max(0.0, (per_sample_mib - before_mib) / (large.samples - small.samples))
        per_sample_mib += bend_mib * (large.samples - middle.samples)
    more = 2 * left_mib / (per_sample_mib + math.sqrt(per_sample_mib**2 + 4 * bend_mib * left_mib))
    return large.samples + more, grown_mib < _SEEN * left_mib


def _half(fitting: Sequence[Probe]) -> Probe:
    """The largest of at most half the samples of the last, or else the smallest."""
    return next(
        (each for each in reversed(fitting) if 2 * each.samples <= fitting[-1].samples), fitting[0]
    )


def _next_for_speed(fitting: Sequence[Probe]) -> int | None:
    """A size in the middle of the gap that matters most and is wider than a factor of two."""
    near = fitting.index(_smallest_near(fitting))
    fastest = max(range(len(fitting)), key=lambda index: fitting[index].throughput_per_s.value)
    for index in (near, fastest, fastest + 1):
        if not 0 < index < len(fitting):
            continue
        low, high = fitting[index - 1].samples, fitting[index].samples
        middle = 2 ** round(math.log2(low * high) / 2)
        if high > 2 * low and low < middle < high:
            return int(middle)
    return None


def _fitting(probes: Sequence[Probe]) -> list[Probe]:
    return sorted((each for each in probes if each.fits), key=_samples)


def _timed(probes: Sequence[Probe]) -> list[Probe]:
    """Those whose speed can be compared: with an interval, or all where none has one."""
    fitting = _fitting(probes)
    return [each for each in fitting if each.has_interval] or fitting


def _samples(probe: Probe) -> int:
    return probe.samples


def _first_failing(probes: Sequence[Probe]) -> Probe | None:
    largest = _fitting(probes)[-1].samples
    return min(
        (each for each in probes if not each.fits and each.samples > largest),
        key=_samples,
        default=None,
    )


def _is_bracket(low: int, over: Probe | None) -> bool:
    return over is not None and over.samples - 1 <= low * RESOLUTION


def _smallest_near(fitting: Sequence[Probe]) -> Probe:
    most = max(each.throughput_per_s.value for each in fitting)
    return next(each for each in fitting if each.throughput_per_s.value >= NEAR * most)
