"""Whether two versions of the measuring code measure alike: both measure the same configurations, in turns.

another checkout's src and this one's -> rounds of `gpu-report run` by each -> ratio of their throughputs, this one's
over the other's, as geometric mean over rounds with its 95 % interval (Student's t on the logarithms)

A digest may be added to MEASURES_ALIKE of provenance where 1 is in every interval; take configurations whose
intervals are narrow, as those of captured steps are.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpu_report.records.record import read_record
from gpu_report.study.machine import find_machine
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import ratio, summarise

HERE: Final = Path(__file__).parents[1] / "src"


def measured(sources: Path, slug: str, configfile: Path) -> float:
    """Samples per second that the code in this folder measures, the mean over its processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gpu_report", "run", "--configfile", str(configfile.resolve()), slug]
        paths = os.pathsep.join([str(sources), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": paths}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment)
        (record,) = Path(folder).glob("results/machines/*/runs/*/record.json")
        return summarise(process_values(read_record(record))["throughput_per_s"]).value


def measured_in_turns(other: Path, slug: str, configfile: Path, *, rounds: int) -> Iterator[tuple[float, float]]:
    """The other's and this one's throughput in each round; who is first alternates."""
    for number in range(rounds):
        order = (other, HERE) if number % 2 else (HERE, other)
        by = {sources: measured(sources, slug, configfile) for sources in order}
        yield by[other], by[HERE]


def main() -> None:
    """Print a line for each configuration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="the src folder of the other version, as git worktree makes it")
    parser.add_argument("variants", nargs="+", help="names, as gpu-report list shows them")
    parser.add_argument("--configfile", type=Path, default=Path("config/study.yaml"))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{find_machine().id}, {given.rounds} rounds by each version")
    for slug in given.variants:
        pairs = list(measured_in_turns(given.other.resolve(), slug, given.configfile, rounds=given.rounds))
        other, this = (dict(enumerate(speeds)) for speeds in zip(*pairs, strict=True))
        found = ratio(this, other)
        speeds = [summarise([*side.values()]).value for side in (other, this)]
        print(
            f"{slug:50} {speeds[0]:10.1f} {speeds[1]:10.1f} samples/s  "
            f"ratio {found.value:.4f} ({found.low:.4f} to {found.high:.4f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
