"""Whether two versions of the measuring code measure alike: both measure the same configurations,
in turns.

another checkout's src and this one's -> rounds of `gpu-report run` by each -> ratio of their
throughputs, this one's over the other's, as geometric mean over rounds with its 95 % interval
(Student's t on the logarithms)

A digest may be added to MEASURES_ALIKE of provenance where 1 is in every interval, or where an
interval is within 0.1 % of 1: those of captured steps on several GPUs are narrower than that, and
those of a report are not. Take configurations whose intervals are narrow.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gpu_report.records.record import RECORD_FILE
from gpu_report.study.machine import find_machine
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import ratio, summarise

HERE: Final = Path(__file__).parents[1] / "src"


def measured(sources: Path, slug: str, configfile: Path) -> float:
    """Samples per second that the code in this folder measures, the mean over its processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "gpu_report",
            "run",
            "--configfile",
            str(configfile.resolve()),
            slug,
        ]
        paths = os.pathsep.join([str(sources), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": paths}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment)
        return recorded_throughput(Path(folder))


def compared_in_turns(
    first: Callable[[], float], second: Callable[[], float], *, rounds: int
) -> str:
    """Both throughputs and their ratio, in words; who is first alternates. Each is printed as it
    ends, so that a run that is cut off has shown something.
    """
    of_first: dict[int, float] = {}
    of_second: dict[int, float] = {}
    for number in range(rounds):
        for found, measure in [(of_first, first), (of_second, second)][:: -1 if number % 2 else 1]:
            found[number] = measure()
            print(f"  {found[number]:.1f}", end="", file=sys.stderr, flush=True)
    one, other = (summarise([*found.values()]).value for found in (of_first, of_second))
    gain = ratio(of_second, of_first)
    return (
        f"{one:10.1f} {other:10.1f} samples/s  ratio {gain.value:.4f} ({gain.low:.4f} to "
        f"{gain.high:.4f})"
    )


def recorded_throughput(folder: Path) -> float:
    """Samples per second of the one record in this folder of a project, the mean over its
    processes.
    """
    (record,) = folder.glob("results/machines/*/runs/*/record.json")
    return summarise(process_values(RECORD_FILE.read(record))["throughput_per_s"]).value


def main() -> None:
    """Print a line for each configuration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "other", type=Path, help="the src folder of the other version, as git worktree makes it"
    )
    parser.add_argument("variants", nargs="+", help="names, as gpu-report list shows them")
    parser.add_argument("--configfile", type=Path, default=Path("config/study.yaml"))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{find_machine().id}, {given.rounds} rounds by each version")
    versions = (given.other.resolve(), HERE)
    for slug in given.variants:
        by_other, by_this = (
            partial(measured, sources, slug, given.configfile) for sources in versions
        )
        print(f"{slug:50} {compared_in_turns(by_other, by_this, rounds=given.rounds)}", flush=True)


if __name__ == "__main__":
    main()
