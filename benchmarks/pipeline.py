"""What the pipeline costs beside the training itself, as ratios of things timed in one run.

Run it in a project whose report is built: `make report && make bench`. It edits one section
template, builds the report twice from it, and puts the template back; then it times a report of 100
variants in a copy of the project.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report_time import records_to_pdf
from benchmarks.study_time import lines, read_spans
from gpu_report.bundles.shown_machines import MACHINES

PDF = "report/gpu_report.pdf"
TEMPLATE = Path("src/gpu_report/writing/templates/sections/recommendations.tex.j2")
REPEATS = 5


def seconds_of(command: list[str], *, folder: Path = Path()) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


def median_of(command: list[str], *, folder: Path = Path()) -> float:
    return statistics.median(seconds_of(command, folder=folder) for _ in range(REPEATS))


def nothing_to_do(build: list[str]) -> None:
    """A run with nothing to do, against Snakemake on an empty Snakefile."""
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "Snakefile").touch()
        bare = median_of(["snakemake", "--cores", "4"], folder=Path(empty))
    ours = median_of(build)
    print(
        f"nothing to do       {ours:6.2f} s, empty Snakefile {bare:.2f} s: ratio {ours / bare:.2f}"
    )


def edited_section(build: list[str]) -> None:
    """From an edited section template to the PDF, against the same command with nothing to do."""
    text = TEMPLATE.read_text("utf-8")
    try:
        TEMPLATE.write_text(text + "\n% edited\n", "utf-8")
        edited = seconds_of(build)
    finally:
        TEMPLATE.write_text(text, "utf-8")
    restored = seconds_of(build)
    idle = seconds_of(build)
    print(
        f"edited section      {edited:6.2f} s and back {restored:.2f} s, nothing to do {idle:.2f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configfile", default="config/study.yaml")
    build = ["snakemake", "--cores", "4", "--configfile", parser.parse_args().configfile, "--", PDF]
    if not Path(PDF).exists():
        print(f"there is no {PDF} yet; make it with: make report", file=sys.stderr)
        return 2
    subprocess.run(build, check=True, capture_output=True)
    print("\n".join(lines(read_spans(sorted(MACHINES.glob("*/"))))))
    nothing_to_do(build)
    edited_section(build)
    print("\n".join(records_to_pdf().lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
