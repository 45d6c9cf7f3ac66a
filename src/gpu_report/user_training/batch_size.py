"""Which batch size for a model of your own: `gpu_report.find_batch_size(build, make_batch,
loss=...)`.

1, 32, 1024 samples ... -> memory per sample -> close to the limit -> bracket of 2 % -> sizes
between, for the speed

Each number of samples is tried in a fresh process, so one that runs out of memory or fails
otherwise costs nothing but its time. Speed is that of one process each: the intervals hold the
differences between its blocks of steps. Answers about speed are by these intervals, and none is
given where other programs used the CPU while a size was timed. A search of a study is the same, of
one of our workloads, and becomes a record.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from gpu_report.errors import ProfileError
from gpu_report.measure.environment import host_environment
from gpu_report.measure.run import PATIENCE_S, Stopped
from gpu_report.printing.number_format import count, counted, memory, share, throughput
from gpu_report.printing.terminal import clean, say
from gpu_report.records.batch_sizes import SCHEMA_VERSION, Answers, SearchRecord, Tried
from gpu_report.records.provenance import find_provenance
from gpu_report.study.options import option_names
from gpu_report.study.search import NEAR, RESOLUTION, BatchSearch, Bounds
from gpu_report.tables.marks import load_in_words
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL, Summary, ratio_of_means, summarise
from gpu_report.user_training.arguments import require_positive, require_whole
from gpu_report.user_training.card import Card
from gpu_report.user_training.process import (
    Factory,
    OwnResult,
    OwnTraining,
    is_built_in,
    own_server,
    train_in_fresh_process,
)
from gpu_report.user_training.run import require_built_in

MOST_PROBES: Final = 12
_GROWTH: Final = 32
_SEEN: Final = 0.05
"""Memory is extrapolated once the samples have taken this part of what was left for them."""
_BELOW: Final = 0.98
_BELOW_ONCE_KNOWN: Final = 0.99
_MIB_PER_GIB: Final = 1024
_WIDTH: Final = 100
_samples: Final = attrgetter("samples")
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
    margin: float = 0.0,
    maximum: int | None = None,
    multiple_of: int = 1,
    seconds: float = 5.0,
    patience: float = PATIENCE_S,
) -> "BatchSizes":
    """Find the largest batch that fits, the fastest, and the smallest that is about as fast, and
    print each try as it ends.

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
        margin: Share of that memory to leave, for instance 0.1 for what an evaluation or a longer
            batch may take.
        maximum: The largest number of samples to try.
        multiple_of: Only multiples of this number are tried.
        seconds: To measure one batch size, beside starting the process; slow steps take longer, see
            `patience`.
        patience: Seconds after which a try that does not answer has failed. A size whose steps are
            too slow for three timed ones in half of it is in neither of the answers about speed.

    Raises:
        ProfileError: one sample does not fit or cannot be trained, or a part is of another kind.
        ConfigError: there is no built-in workload of that name, or margin and maximum leave
            nothing to try.
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
        for name, function in {"build": build, "make_batch": make_batch}.items():
            is_made = hasattr(function, "state_dict") and not isinstance(function, type)
            if is_made or not (isinstance(function, str) or callable(function)):
                raise ProfileError(
                    f"{name}: it is a {type(function).__name__}; expected a function, or its name "
                    "as module:function, since each try is a fresh process"
                )
        if size is not None:
            raise ProfileError(
                f"size: {size!r} was given; expected it only with a built-in workload"
            )
    require_positive(memory_limit=memory_limit, seconds=seconds, patience=patience)
    require_whole(maximum=maximum, multiple_of=multiple_of)
    bounds = Bounds(maximum=maximum, multiple_of=multiple_of, margin=margin)
    bounds.check()
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
        margin=margin,
        seconds=seconds,
        least_s=patience / 2,
    )
    found = try_sizes(training, bounds, patience_s=patience)
    if not found.fitting:
        last = found.probes[-1]
        if last.stopped.status != "oom":
            raise ProfileError(f"the model cannot be trained: {last.stopped.reason}")
        limit = f", limited to {memory_limit:g} GiB or what is free," if memory_limit else ""
        raise ProfileError(
            f"the model does not fit into memory{limit} with "
            f"{counted(last.samples, 'sample')}: {_asked(last.stopped) or last.stopped.reason}"
        )
    return found


def try_sizes(training: OwnTraining, bounds: Bounds, *, patience_s: float) -> "BatchSizes":
    """Try at most 12 numbers of samples, and print each as it ends, and the answers where one of
    them fits.

    Raises:
        ProfileError: a function cannot be sent to another process.
    """
    say(HEAD)
    found = BatchSizes(probes=[], bounds=bounds)
    while len(found.probes) < MOST_PROBES and (samples := found.next_samples()) is not None:
        result = train_in_fresh_process(replace(training, samples=samples), patience_s=patience_s)
        found = replace(found, probes=[*found.probes, Probe(samples, result)])
        say(found.probes[-1].row())
    if found.fitting:
        say(found.answers())
    return found


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


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchSizes(Card):
    """Three answers, and the tries that they are from, in their order; `print` shows all of it.

    Where `problem` says that other programs used the CPU, `fastest` and `smallest_near_fastest` are
    only what was measured, and no answers.
    """

    probes: Sequence[Probe]
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def fitting(self) -> list[Probe]:
        """Those that fit, by their number of samples."""
        return sorted((each for each in self.probes if each.fits), key=_samples)

    @property
    def timed(self) -> list[Probe]:
        """Those whose speed can be compared: with an interval, or all where none has one."""
        return [each for each in self.fitting if each.has_interval] or self.fitting

    @property
    def largest(self) -> Probe:
        """The largest that fits, and within 2 % the largest there is where `is_resolved`."""
        return self.fitting[-1]

    @property
    def smallest_too_large(self) -> Probe | None:
        """The first that failed above it, by running out of memory or otherwise."""
        larger = [each for each in self.probes if each.samples > self.largest.samples]
        return min(larger, key=_samples, default=None)

    @property
    def highest(self) -> float:
        """The largest number that is allowed and has not failed; infinite where none failed."""
        over = self.smallest_too_large
        return self.bounds.largest_below(math.inf if over is None else over.samples)

    @property
    def is_resolved(self) -> bool:
        near = 1 if self.smallest_too_large is None else RESOLUTION
        return self.highest <= self.largest.samples * near

    @property
    def problem(self) -> str:
        """Why no answer about speed is given; empty where there is one."""
        load = load_in_words([each.fitting.measured.load for each in self.timed])
        return load and f"{load} while sizes were timed; search again when nothing else runs"

    @property
    def headroom(self) -> float:
        """Share of the memory that the largest leaves."""
        return 1 - self.largest.fitting.memory_taken_mib / self.largest.fitting.memory_limit_mib

    @property
    def fastest(self) -> Probe:
        """The most samples per second."""
        return max(self.timed, key=lambda each: each.throughput_per_s.value)

    @property
    def smallest_near_fastest(self) -> Probe:
        """The smallest tried with at least 95 % of that. An interval of few blocks is too wide to
        decide: it would reach 95 % of nearly anything.
        """
        return next(each for each in self.timed if self._part_of_fastest(each).value >= NEAR)

    def _part_of_fastest(self, probe: Probe) -> Summary:
        return ratio_of_means(probe.throughput_per_s, self.fastest.throughput_per_s)

    def next_samples(self) -> int | None:
        """What to try next: first for the largest that fits, then for the speed of sizes between;
        None at the end.
        """
        unit = self.bounds.multiple_of
        if not self.fitting:
            # With one sample some layers cannot be trained, such as a batch normalization; two show
            # whether that is why.
            fails = [each.stopped.status != "failed" or each.samples > 1 for each in self.probes]
            first = unit * (1 + len(self.probes))
            return None if any(fails) or first > self.bounds.largest_below(math.inf) else first
        if not self.is_resolved:
            wanted = _next_for_largest(self.fitting, self.smallest_too_large)
            return int(min(max(wanted // unit * unit, self.largest.samples + unit), self.highest))
        between = self._next_for_speed()
        return None if between in map(_samples, self.probes) else between

    def _next_for_speed(self) -> int | None:
        """A size in the middle of the gap that matters most and is wider than a factor of two."""
        timed, unit = self.timed, self.bounds.multiple_of
        near, fastest = timed.index(self.smallest_near_fastest), timed.index(self.fastest)
        for index in (near, fastest, fastest + 1):
            if not 0 < index < len(timed):
                continue
            low, high = timed[index - 1].samples, timed[index].samples
            middle = 2 ** round(math.log2(low * high) / 2) // unit * unit
            if high > 2 * low and low < middle < high:
                return int(middle)
        return None

    def summary(self) -> str:
        """The tries by their number of samples, and the answers."""
        rows = [each.row() for each in sorted(self.probes, key=_samples)]
        return "\n".join([HEAD, *rows, self.answers()])

    def answers(self) -> str:
        """The three answers with their evidence, and the rule of thumb for the learning rate."""
        speed = [f"speed     no answer: {self.problem}"] if self.problem else self._about_speed()
        return "\n".join([*self._about_memory(), *speed, _RULE_OF_THUMB])

    def _about_memory(self) -> list[str]:
        largest, over = self.largest, self.smallest_too_large
        limit_mib = largest.fitting.memory_limit_mib
        why = f"no larger one {'is allowed' if self.is_resolved else 'was tried'}"
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
            if math.isinf(self.highest)
            else f"from {fits} to {count(self.highest).plain()}"
        )
        unresolved = (
            f"{'':10}not resolved after {len(self.probes)} tries: the true largest is {upto}; "
            f"take {fits}, or "
            "search again with a lower memory limit"
        )
        beside = f" beside the margin of {share(self.bounds.margin).plain()}"
        return [
            f"largest   {fits}, {share(self.headroom).plain()} of {memory(limit_mib).plain()} "
            f"left{beside if self.bounds.margin else ''}; {why}",
            *([] if self.is_resolved else [unresolved]),
        ]

    def _about_speed(self) -> list[str]:
        timed, fastest, near = self.timed, self.fastest, self.smallest_near_fastest
        alike = [
            count(each.samples).plain()
            for each in timed
            if each is not fastest and each.throughput_per_s.high >= fastest.throughput_per_s.low
        ]
        overlapping = f"; its interval overlaps with {' and '.join(alike)}" if alike else ""
        untimed = [count(each.samples).plain() for each in self.fitting if not each.has_interval]
        without = (
            f"; without {' and '.join(untimed)}, too slow for {FEWEST_FOR_INTERVAL} blocks"
            if untimed
            else ""
        )
        gap = ""
        for slower in [each for each in timed if each.samples < near.samples][-1:]:
            part = self._part_of_fastest(slower)
            reached = share(part.value, low=part.low, high=part.high).plain()
            gap = f"; {count(slower.samples).plain()} reaches {reached}"
        rate = throughput(fastest.throughput_per_s.value).plain()
        return [
            f"fastest   {count(fastest.samples).plain()}, {rate} (intervals over blocks of one "
            f"process){overlapping}{without}",
            f"smallest  {count(near.samples).plain()}, which reaches at least "
            f"{share(NEAR).plain()} of the fastest{gap}",
        ]


def _next_for_largest(fitting: Sequence[Probe], over: Probe | None) -> int:
    """Where memory is predicted to be full; without a size that fails at most _GROWTH times the
    largest that fits, and else the middle of both where the prediction is not between them.
    """
    low = fitting[-1].samples
    predicted = _predicted(fitting)
    if over is None:
        if predicted is None:
            return low * _GROWTH
        bound, is_extrapolated = predicted
        if is_extrapolated:
            return min(int(bound / 2), low * _GROWTH)
        return _close_to(bound, low, is_known=low > bound / 2)
    if over.stopped.status == "oom" and predicted is not None and low < predicted[0] < over.samples:
        return _close_to(predicted[0], low, is_known=True)
    return math.isqrt(low * over.samples)


def _close_to(bound: float, low: int, *, is_known: bool) -> int:
    """A size that fits by a small margin; once one does, the size whose failure ends the search."""
    if bound <= low * RESOLUTION:
        return int(low * RESOLUTION) + 1
    return int(bound * (_BELOW_ONCE_KNOWN if is_known else _BELOW))


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


def search_batch_size(search: BatchSearch, *, machine: str) -> SearchRecord:
    """Try numbers of samples on the machine with this id, otherwise idle, and print what
    `find_batch_size` prints.
    """
    provenance = find_provenance()
    plain = search.variant(samples=1)
    training = OwnTraining(
        build=search.workload,
        make_batch=None,
        size=search.size,
        device=search.device,
        precision=search.precision,
        options=option_names(plain.options),
        accumulate=plain.accumulation,
        memory_limit_mib=search.memory_limit_mib,
        margin=search.margin,
        seconds=search.seconds,
        least_s=PATIENCE_S / 2,
    )
    found = try_sizes(training, search, patience_s=PATIENCE_S)
    fitting = [probe.fitting.measured for probe in found.fitting]
    return SearchRecord(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        search=search,
        memory_kind=fitting[0].memory_kind if fitting else None,
        tries=[_tried(probe) for probe in found.probes],
        answers=Answers(
            largest=found.largest.samples,
            is_resolved=found.is_resolved,
            fastest=None if found.problem else found.fastest.samples,
            smallest_near_fastest=None if found.problem else found.smallest_near_fastest.samples,
        )
        if fitting
        else None,
        environment={
            **host_environment(),
            **({"torch": fitting[0].torch_version} if fitting else {}),
        },
        provenance=provenance,
    )


def _tried(probe: Probe) -> Tried:
    found = probe.result if isinstance(probe.result, OwnResult) else None
    return Tried(
        samples=probe.samples,
        status="ok" if found else probe.stopped.status,
        reason="" if found else probe.stopped.reason,
        throughputs_per_s=probe.throughputs_per_s if found else [],
        memory_peak_mib=found and found.measured.memory_peak_mib,
        memory_taken_mib=found and found.memory_taken_mib,
        memory_limit_mib=found and found.memory_limit_mib,
    )
