"""What a time budget saves, and what it costs in verdicts, simulated on published studies.

published bundle -> mean, spread and cost of the processes of each configuration -> studies drawn at
random, each measured whole and within a budget -> verdicts and false claims against time

A drawn process differs from the mean of its configuration as a recorded one of its kind of device
does (`benchmarks/recorded`, 40 processes each), scaled to the spread of the configuration's own
processes. The whole study and the one with a budget have the same processes, and differ in how many
of them they measure. A study of which no configuration differs from another shows how often
something false is claimed: the share of experiments with any claim. Time is that of all processes
and the profiled run of each configuration; a further process compiles again.
"""

import argparse
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from gpu_report.bundles.shown_machines import find_bundles, study_of
from gpu_report.bundles.unpacking import records_in, results_at
from gpu_report.records.record import Record
from gpu_report.study.config import DEFAULT_CONFIGFILE, read_config
from gpu_report.study.study import Study
from gpu_report.study.variant import Variant
from gpu_report.tables.claims import (
    FIRST_PROCESSES,
    Claim,
    further_process_s,
    process_s,
    speed_claims,
    wanting,
)
from gpu_report.tables.processes import values_of
from gpu_report.tables.statistics import ratio

RECORDED: Final = Path(__file__).parent / "recorded"
Verdicts = dict[tuple[str, ...], str]
"""Of each claim its sign, or the fastest; empty where it is too close to call."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A study as it was measured once, which is the truth of the simulation; of each configuration
    the mean and the spread of the logarithms of its rates, and the seconds of a process.
    """

    study: Study
    means: Mapping[Variant, float]
    spreads: Mapping[Variant, float]
    records: Mapping[str, Record]

    @classmethod
    def of(cls, study: Study, records: Mapping[str, Record]) -> "Measured":
        """Of the configurations that have numbers, and a time of measuring."""
        logs = {
            variant: [*map(math.log, values_of(records[variant.slug], "throughput_per_s"))]
            for variant in study.variants
            if process_s(records[variant.slug]) > 0
        }
        known = {variant: each for variant, each in logs.items() if len(each) > 1}
        return cls(
            study=study.restricted_to({variant.slug for variant in known}),
            means={variant: statistics.fmean(each) for variant, each in known.items()},
            spreads={variant: statistics.stdev(each) for variant, each in known.items()},
            records=records,
        )

    def whole_s(self, asked: int) -> float:
        """Seconds of the whole study."""
        return sum((asked + 1) * process_s(self.records[each.slug]) for each in self.means)


class Drawn:
    """One study, of whose processes each configuration has been measured in as many as `counts`
    says.
    """

    def __init__(self, measured: Measured, random: Random, asked: int, *, differs: bool) -> None:
        self._measured, self._asked = measured, asked
        shapes = _shapes()
        self._rates = {
            variant: [
                math.exp(mean * differs + measured.spreads[variant] * random.choice(shapes[device]))
                for _ in range(asked)
            ]
            for variant, mean in measured.means.items()
            for device in [variant.device_type == "cpu"]
        }
        self.counts = {variant.slug: FIRST_PROCESSES for variant in self._rates}

    def claims(self) -> list[Claim]:
        """What its experiments claim by now."""
        return [
            claim
            for experiment in self._measured.study.experiments_with_variants
            for claim in speed_claims(
                experiment, lambda one, other: ratio(self._taken(one), self._taken(other))
            )
        ]

    def _taken(self, variant: Variant) -> dict[int, float]:
        return dict(enumerate(self._rates[variant][: self.counts[variant.slug]]))

    def measure(self) -> Iterator[tuple[float, Verdicts]]:
        """Measure until no claim is open; after each look the seconds so far, and the verdicts."""
        spent_s = self._measured.whole_s(FIRST_PROCESSES)
        while True:
            claims = self.claims()
            yield spent_s, verdicts_of(claims)
            left = [
                claim
                for claim in claims
                if claim.is_open(min(self.counts[side] for side in claim.sides), self._asked)
            ]
            if not left:
                return
            for slug in wanting(left, self.counts):
                self.counts[slug] += 1
                spent_s += further_process_s(self._measured.records[slug])

    def measure_whole(self) -> Verdicts:
        """The verdicts of all processes."""
        self.counts = dict.fromkeys(self.counts, self._asked)
        return verdicts_of(self.claims())


def verdicts_of(claims: Sequence[Claim]) -> Verdicts:
    """Of speedups the sign; of a group's first two which of them is faster."""
    return {
        (claim.kind, claim.experiment, claim.variant if claim.kind == "speedup" else group): (
            (claim.variant if claim.kind == "fastest" else "<>"[claim.figure.value > 1])
            if claim.is_significant
            else ""
        )
        for claim in claims
        for group in [Variant.from_slug(claim.variant).workload]
    }


def simulate(measured: Measured, *, asked: int, draws: int) -> Iterator[str]:
    """The lines of one study: time and verdicts after each look, and false claims."""
    random, whole_s = Random(0), measured.whole_s(asked)
    times: dict[int, list[float]] = defaultdict(list)
    alike: dict[int, list[float]] = defaultdict(list)
    for _ in range(draws):
        drawn = Drawn(measured, random, asked, differs=True)
        looks = [*drawn.measure()]
        looks += looks[-1:] * (asked - FIRST_PROCESSES + 1 - len(looks))
        whole = drawn.measure_whole()
        for at, (spent_s, found) in enumerate(looks):
            times[at].append(spent_s / whole_s)
            alike[at].append(statistics.fmean(found.get(key) == whole[key] for key in whole))
    for at in dict.fromkeys((0, 1, asked - FIRST_PROCESSES)):
        processes = FIRST_PROCESSES + at
        yield (
            f"  {asked} asked, up to {processes:2}: time {statistics.fmean(times[at]):4.0%}, "
            f"same verdicts {statistics.fmean(alike[at]):6.1%}"
        )
    false: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(draws):
        drawn = Drawn(measured, random, asked, differs=False)
        *_, (_, found) = drawn.measure()
        for is_whole, verdicts in ((False, found), (True, drawn.measure_whole())):
            false[is_whole] += [
                any(found for key, found in verdicts.items() if key[:2] == ("speedup", each.name))
                for each in measured.study.experiments_with_variants
                if len(each.variants) > 1
            ]
    yield (
        f"  {asked} asked, without any difference: false claims in "
        f"{statistics.fmean(false[False]):.1%} of the experiments, whole study "
        f"{statistics.fmean(false[True]):.1%}"
    )


def _shapes() -> dict[bool, list[float]]:
    """Deviations of recorded processes from the mean of their configuration, in its standard
    deviations, by whether they ran on the CPU.
    """
    found: dict[bool, list[float]] = {True: [], False: []}
    for path in sorted(RECORDED.glob("*.json")):
        logs = [*map(math.log, json.loads(path.read_text("utf-8"))["samples_per_s"]["0"])]
        mean, spread = statistics.fmean(logs), statistics.stdev(logs)
        found["cpu" in path.stem] += [(log - mean) / spread for log in logs]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--configfile", type=Path, default=DEFAULT_CONFIGFILE)
    parser.add_argument("--asked", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--draws", type=int, default=200)
    arguments = parser.parse_args()
    config = read_config(arguments.configfile)
    for name, (bundle, manifest) in find_bundles().items():
        study = study_of(config, manifest)
        with results_at(bundle) as folder:
            measured = Measured.of(study, records_in(folder))
        print(
            f"{name}: {len(measured.means)} configurations, {measured.whole_s(5) / 60:.0f} minutes "
            "of 5 processes and a profiled one",
            flush=True,
        )
        for asked in arguments.asked:
            for line in simulate(measured, asked=asked, draws=arguments.draws):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
