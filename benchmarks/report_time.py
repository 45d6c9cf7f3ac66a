"""From recorded results to the PDF: the time with the variants of the largest published bundle on 2
cores, stage by stage, and the share of LaTeX.

published bundle -> imported in a copy of the project, untimed -> snakemake, timed

The copy of the project holds the files that git knows; nothing is changed in the project itself.
`make bench` runs this too.
"""

import argparse
import compileall
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_report.bundles.shown_machines import PUBLISHED, find_bundles

PROJECT = Path(__file__).parents[1]
PDF = "report/gpu_report.pdf"
ENGINES = ("latexmk", "tectonic")

# In place of a TeX engine: runs it and notes how long it took.
TIMED = """#!{python}
import subprocess, sys, time
begun = time.monotonic()
finished = subprocess.run(["{program}", *sys.argv[1:]])
with open("{seconds}", "a") as file:
    print(time.monotonic() - begun, file=file)
sys.exit(finished.returncode)
"""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One job: its rule, and its begin and end in seconds after the command was given."""

    rule: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class Build:
    """One run from records to PDF."""

    variants: int
    cores: int
    wall_s: float
    cpu_s: float
    latex_s: float
    stages: tuple[Stage, ...]

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.variants} variants on {self.cores} cores: {self.wall_s:.1f} s from records to "
            f"PDF, {self.cpu_s:.1f} s of CPU time; LaTeX {self.latex_s:.1f} s, "
            f"{self.latex_s / self.wall_s:.0%}"
        )
        first = min(stage.begin_s for stage in self.stages)
        yield f"  {'snakemake until the first job':<30} {first:5.1f} s"
        for stage in self.stages:
            took_s = stage.end_s - stage.begin_s
            yield (
                f"  {stage.rule:<30} {took_s:5.1f} s, from {stage.begin_s:.1f} to {stage.end_s:.1f}"
            )


def copied_project(folder: Path) -> None:
    """The files that git knows, with their times, and compiled, as Python keeps them after their
    first use.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name)
    compileall.compile_dir(folder / "src", quiet=1)


def timed_engines(folder: Path) -> Path:
    """A folder of programs that stand in for the TeX engines, and note their seconds in `seconds`
    beside them.
    """
    folder.mkdir()
    for name in ENGINES:
        if program := shutil.which(name):
            text = TIMED.format(python=sys.executable, program=program, seconds=folder / "seconds")
            (folder / name).write_text(text, "utf-8")
            (folder / name).chmod(0o755)
    return folder


def stages_of(folder: Path, begun: float) -> tuple[Stage, ...]:
    """Every job that began after this moment, from the note that Snakemake keeps of each of its
    files.
    """
    paths = [path for path in (folder / ".snakemake/metadata").rglob("*") if path.is_file()]
    spans: dict[str, tuple[float, float]] = {}
    for note in (json.loads(path.read_text("utf-8")) for path in paths):
        if note["starttime"] > begun:
            begin, end = spans.get(note["rule"], (math.inf, 0.0))
            spans[note["rule"]] = min(begin, note["starttime"]), max(end, note["endtime"])
    ordered = sorted(spans.items(), key=lambda item: item[1])
    return tuple(
        Stage(rule=rule, begin_s=begin - begun, end_s=end - begun) for rule, (begin, end) in ordered
    )


def build(folder: Path, *, machine: str, cores: int) -> Build:
    """Import what was recorded, then time everything from there to the PDF."""
    engines = timed_engines(folder / "engines")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(engines), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "PYTHONPATH": str(folder / "src"),
    }
    command = ["snakemake", "--cores", str(cores), "--config", f"machines=[{machine}]", "--"]
    _run([*command, f"results/imported/{machine}/calibration.json"], folder, environment)
    begun, used_s = time.time(), _cpu_s()
    _run([*command, PDF], folder, environment)
    return Build(
        variants=len(list(folder.glob(f"results/imported/{machine}/runs/*/record.json"))),
        cores=cores,
        wall_s=time.time() - begun,
        cpu_s=_cpu_s() - used_s,
        latex_s=sum(map(float, (engines / "seconds").read_text("utf-8").split())),
        stages=stages_of(folder, begun),
    )


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def records_to_pdf(*, cores: int = 2) -> Build:
    """Time it in a copy of the project."""
    bundles = find_bundles(PROJECT / PUBLISHED)
    machine = max(bundles, key=lambda name: len(bundles[name][1].variants))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "project"
        copied_project(folder)
        return build(folder, machine=machine, cores=cores)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    print("\n".join(records_to_pdf(cores=arguments.cores).lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
