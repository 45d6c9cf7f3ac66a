"""Whether `gpu-report profile NAME` and a study measure the same throughput of a built-in workload.

rounds of `gpu-report run --workload NAME` with three processes and of `gpu-report profile NAME`, in turns -> ratio of
their throughputs, the profile's over the study's, as geometric mean over rounds with its 95 % interval

They agree where 1 is in the interval.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from gpu_report.records.record import read_record
from gpu_report.study.machine import find_machine
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import ratio, summarise

WORKLOADS: Final = {
    "cuda": ("unet:128px:16", "lstm::64", "resnet50:224px:64"),
    "cpu": ("cnn:small:64",),
}
STUDY: Final = ("--epochs", "3", "--steps-per-epoch", "16", "--repetitions", "3", "--record")


def command(verb: str, workload: str, *options: str, device: str) -> list[str]:
    name, size, batch_size = workload.split(":")
    named = ["--workload", name] if verb == "run" else [name]
    sized = ["--size", size] if size else []
    return [
        sys.executable,
        "-m",
        "gpu_report",
        verb,
        *named,
        *sized,
        "--batch-size",
        batch_size,
        "--device",
        device,
        *options,
    ]


def by_study(workload: str, device: str, folder: Path) -> float:
    """Samples per second, the mean over processes."""
    subprocess.run(command("run", workload, *STUDY, device=device), check=True, stdout=subprocess.DEVNULL, cwd=folder)
    (record,) = folder.glob("results/machines/*/runs/*/record.json")
    return summarise(process_values(read_record(record))["throughput_per_s"]).value


def by_profile(workload: str, device: str, folder: Path) -> float:
    """Samples per second, of one process."""
    written = ("--json", "profile.json")
    subprocess.run(
        command("profile", workload, *written, device=device), check=True, stdout=subprocess.DEVNULL, cwd=folder
    )
    return float(json.loads((folder / "profile.json").read_bytes())["throughput_per_s"]["value"])


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workloads", nargs="*", help="NAME:SIZE:BATCH_SIZE, the size may be empty")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{find_machine().id}, {given.rounds} rounds")
    for workload in given.workloads or WORKLOADS[given.device]:
        study: dict[int, float] = {}
        profile: dict[int, float] = {}
        for number in range(given.rounds):
            for by, measure in [(study, by_study), (profile, by_profile)][:: -1 if number % 2 else 1]:
                with tempfile.TemporaryDirectory() as folder:
                    by[number] = measure(workload, given.device, Path(folder))
        found = ratio(profile, study)
        print(
            f"{workload:20} study {summarise([*study.values()]).value:10.1f}, "
            f"profile {summarise([*profile.values()]).value:10.1f} samples/s, "
            f"ratio {found.value:.4f} ({found.low:.4f} to {found.high:.4f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
