"""Whether two versions of the measuring code measure alike: both measure the same configurations, in turns.

another checkout's src and this one's -> rounds of `measure-variant` by each -> ratio of their throughputs, this one's
over the other's, as geometric mean over rounds with its 95 % interval (Student's t on the logarithms)

A digest may be added to gpu_report.provenance.MEASURES_ALIKE where every interval holds 1; take configurations whose
intervals are narrow, as those of captured steps are.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from scipy.stats import t as students_t

from gpu_report.config_file import read_config
from gpu_report.machine import find_machine
from gpu_report.records import read_record
from gpu_report.study import Measurement, load_study
from gpu_report.tables.processes import process_values

HERE: Final = Path(__file__).parents[1] / "src"
COMMAND: Final = "import sys; from gpu_report.cli import main; sys.exit(main())"
CONFIDENCE: Final = 0.95


def measured(sources: Path, measurement: Measurement, machine: str) -> float:
    """Samples per second that the code in this folder measures, the median over its processes."""
    with tempfile.TemporaryDirectory() as folder:
        results = {flag: str(Path(folder) / flag) for flag in ("record", "trace", "memory")}
        command = [
            *(sys.executable, "-c", COMMAND, "measure-variant", "--machine", machine),
            *("--measurement", json.dumps(measurement.as_dict())),
            *(part for flag, path in results.items() for part in (f"--{flag}", path)),
        ]
        paths = os.pathsep.join([str(sources), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": paths})
        return statistics.median(process_values(read_record(Path(results["record"])))["throughput_per_s"])


def measured_in_turns(
    other: Path, measurement: Measurement, machine: str, rounds: int
) -> Iterator[tuple[float, float]]:
    """The other's and this one's throughput in each round; who is first alternates."""
    for number in range(rounds):
        order = (other, HERE) if number % 2 else (HERE, other)
        by = {sources: measured(sources, measurement, machine) for sources in order}
        yield by[other], by[HERE]


def ratio_with_interval(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Geometric mean of the second over the first, and the ends of its interval."""
    logs = [math.log(second / first) for first, second in pairs]
    half = students_t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    """Print a line for each configuration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="the src folder of the other version, as git worktree makes it")
    parser.add_argument("variants", nargs="+", help="names, as gpu-report list shows them")
    parser.add_argument("--configfile", type=Path, default=Path("config/study.yaml"))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    machine = find_machine()
    study = load_study(read_config(given.configfile), devices=machine.devices)
    print(f"{machine.id}, {given.rounds} rounds of {study.protocol.repetitions} processes by each version")
    for slug in given.variants:
        pairs = list(measured_in_turns(given.other.resolve(), study.measurement(slug), machine.id, rounds=given.rounds))
        ratio, low, high = ratio_with_interval(pairs)
        other, this = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
        print(
            f"{slug:50} {other:10.1f} {this:10.1f} samples/s  ratio {ratio:.4f} ({low:.4f} to {high:.4f})", flush=True
        )


if __name__ == "__main__":
    main()
