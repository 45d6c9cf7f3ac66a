"""How often `gpu-report reproduce` is wrong, shown by measuring recorded processes again.

`python -m benchmarks.reproduce FILE.json ...` takes the 40 recorded processes of a configuration
for all that it could measure. A bundle has 10 configurations, each of 5 processes drawn from them,
and says that every next one is faster by a half: it claims 10 throughputs and 9 speedups over the
first. Then 3 processes of each are drawn once more, and up to 5 where a claim is too close to call,
as the command measures them; all claims get their verdicts together. So 200 times:

- false: the share of claims that are contradicted, at most 1 %, and of runs with such a claim,
- reproduced: the share of claims,
- planted: the share that is contradicted of two claims, the throughput and the speedup of one
  configuration, if that is slower by 10 % this time.

Processes are drawn at random with replacement, or `in a row`: they ran one after the other, the new
ones at another time, so that what drifts on a machine differs as between sessions. `with spread`
has sentinels that show how much that is: the spread of means of 5 in a row. `elsewhere` tests
signs: every next configuration is faster than the first by 5 %, what is significant is claimed, and
the planted one is slower than the first by 10 % on the other machine.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from gpu_report.tables.claims import FIRST_PROCESSES, Claim
from gpu_report.tables.reproduction import (
    CONTRADICTED,
    REPRODUCED,
    TOO_CLOSE,
    Sides,
    verdicts_on,
    weighed,
)
from gpu_report.tables.statistics import SIGNIFICANCE, BySeed, Spread, ratio

RUNS: Final = 200
CONFIGURATIONS: Final = 10
MOST: Final = 5
STEP: Final = 1.5
STEP_ELSEWHERE: Final = 1.05
PLANTED: Final = 0.10

Draw = Callable[[int], list[float]]
"""Some processes of the recorded ones, by their number."""


def at_random(random: Random, recorded: Sequence[float]) -> Draw:
    return lambda count: random.choices(recorded, k=count)


def in_a_row(random: Random, recorded: Sequence[float]) -> Draw:
    def draw(count: int) -> list[float]:
        start = random.randrange(len(recorded) - count + 1)
        return list(recorded[start : start + count])

    return draw


def run(
    draw: Draw, *, is_same_machine: bool, spread: Spread | None, planted: float = 0.0
) -> dict[Claim, str]:
    """The verdicts of one bundle that is measured again; the configuration `1` is slower by the
    planted share.
    """
    speeds = [STEP**index for index in range(CONFIGURATIONS)]
    if not is_same_machine:
        speeds = [1.0, *[STEP_ELSEWHERE] * (CONFIGURATIONS - 1)]
    slowed = list(speeds)
    if planted:
        slowed[1] = (speeds[1] if is_same_machine else speeds[0]) / (1 + planted)
    then, now = (
        {
            f"{index}": {at: speed * value for at, value in enumerate(draw(MOST))}
            for index, speed in enumerate(side)
        }
        for side in (speeds, slowed)
    )
    claims = [
        claim
        for name in then
        for claim in (
            Claim(kind="throughput", variant=name, figure=ratio(*sides("", name, then))),
            Claim(
                kind="speedup", variant=name, reference="0", figure=ratio(*sides("0", name, then))
            ),
        )
        if is_same_machine or claim.reference
        if claim.variant != claim.reference and not claim.figure.p >= SIGNIFICANCE
    ]
    counts = dict.fromkeys(then, FIRST_PROCESSES)
    while True:
        measured = {
            name: {at: values[at] for at in range(counts[name])} for name, values in now.items()
        }
        found = verdicts_on(
            {
                claim: weighed(
                    claim,
                    sides(claim.reference, claim.variant, then),
                    sides(claim.reference, claim.variant, measured),
                    is_same_machine=is_same_machine,
                    spread=spread,
                )
                for claim in claims
            }
        )
        further = {
            side
            for claim, verdict in found.items()
            for side in claim.sides
            if verdict == TOO_CLOSE and counts[side] < MOST
        }
        if not further:
            return found
        for side in further:
            counts[side] += 1


def sides(reference: str, variant: str, values: Mapping[str, BySeed]) -> Sides:
    one = values[variant]
    return one, values[reference] if reference else dict.fromkeys(one, 1.0)


def spread_of(recorded: Sequence[float]) -> Spread:
    """What sentinels would show, if every 5 processes in a row were a session."""
    means = [
        statistics.fmean(map(math.log, recorded[at : at + MOST]))
        for at in range(0, len(recorded) - MOST + 1, MOST)
    ]
    return Spread(statistics.stdev(means), len(means))


def show(name: str, draw: Draw, *, is_same_machine: bool, spread: Spread | None, runs: int) -> str:
    """A line of what the runs show."""
    alike, planted = (
        [
            run(draw, is_same_machine=is_same_machine, spread=spread, planted=share)
            for _ in range(runs)
        ]
        for share in (0.0, PLANTED)
    )
    verdicts = [verdict for each in alike for verdict in each.values()]
    found = [verdict for each in planted for claim, verdict in each.items() if claim.variant == "1"]
    runs_with = sum(CONTRADICTED in each.values() for each in alike)
    shares = [
        statistics.fmean(verdict == kind for verdict in each)
        for each, kind in ((verdicts, CONTRADICTED), (verdicts, REPRODUCED), (found, CONTRADICTED))
    ]
    return (
        f"  {name:11} false {shares[0]:6.2%} of {len(verdicts):5} claims, in "
        f"{runs_with / runs:5.1%} of runs; reproduced {shares[1]:6.1%}; planted {shares[2]:6.1%}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    for path in arguments.files:
        document = json.loads(path.read_text("utf-8"))
        recorded, random = document["samples_per_s"]["0"], Random(0)
        print(f"{document['name']}:", flush=True)
        for name, drawn, is_same_machine, spread in (
            ("at random", at_random, True, None),
            ("in a row", in_a_row, True, None),
            ("with spread", in_a_row, True, spread_of(recorded)),
            ("elsewhere", at_random, False, None),
        ):
            line = show(
                name,
                drawn(random, recorded),
                is_same_machine=is_same_machine,
                spread=spread,
                runs=arguments.runs,
            )
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
