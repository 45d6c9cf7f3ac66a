"""What the pipeline costs beside the training itself, as ratios of things timed in one run.

Run it in a project whose report is built: `make report && make bench`. It edits one section template, builds the report
twice from it, and puts the template back.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

PDF = "report/gpu_report.pdf"
TEMPLATE = Path("report/sections/recommendations.tex.j2")
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
    print(f"nothing to do       {ours:6.2f} s, empty Snakefile {bare:.2f} s: ratio {ours / bare:.2f}")


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
    print(f"edited section      {edited:6.2f} s and back {restored:.2f} s, nothing to do {idle:.2f} s")


def share_in_training() -> None:
    """Timed and profiled training against the whole time of the measuring commands, from the records."""
    inside = whole = 0.0
    for path in Path().glob("results/machines/*/runs/*/record.json"):
        record = json.loads(path.read_text("utf-8"))
        epochs = [epoch for repetition in record["repetitions"] for epoch in repetition["epochs"]]
        profiled_ms = sum(record["profile"]["step_times_ms"]) if record["profile"] else 0.0
        trained = sum(epoch["wall_time_s"] for epoch in epochs) + profiled_ms / 1e3
        took = path.stat().st_mtime - datetime.fromisoformat(record["provenance"]["measured_at"]).timestamp()
        print(f"  {record['variant']:40} {trained:6.1f} s of {took:6.1f} s: {trained / took:.2f}")
        inside, whole = inside + trained, whole + took
    print(f"share in training   {inside:6.1f} s of {whole:.1f} s: {inside / whole:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configfile", default="config/study.yaml")
    build = ["snakemake", "--cores", "4", "--configfile", parser.parse_args().configfile, "--", PDF]
    if not Path(PDF).exists():
        print(f"there is no {PDF} yet; make it with: make report", file=sys.stderr)
        return 2
    subprocess.run(build, check=True, capture_output=True)
    share_in_training()
    nothing_to_do(build)
    edited_section(build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
