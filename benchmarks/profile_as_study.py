"""Whether `gpu-report profile NAME` and a study measure the same throughput of a built-in workload.

rounds of `gpu-report run --workload NAME` with three processes and of `gpu-report profile NAME`, in
turns -> ratio of their throughputs, the profile's over the study's, as geometric mean over rounds
with its 95 % interval

They agree where 1 is in the interval.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.same_measuring import compared_in_turns, recorded_throughput
from gpu_report.study.machine import find_machine

WORKLOADS: Final = {
    "cuda": ("unet:128px:16", "lstm::64", "resnet50:224px:64"),
    "cpu": ("cnn:small:64",),
}
STUDY: Final = ("--epochs", "3", "--repetitions", "3", "--record")


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


def by_study(workload: str, device: str) -> float:
    """Samples per second, the mean over processes."""
    with tempfile.TemporaryDirectory() as folder:
        asked = command("run", workload, *STUDY, device=device)
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        return recorded_throughput(Path(folder))


def by_profile(workload: str, device: str) -> float:
    """Samples per second, of one process."""
    with tempfile.TemporaryDirectory() as folder:
        asked = command("profile", workload, "--json", "profile.json", device=device)
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        return float(
            json.loads(Path(folder, "profile.json").read_bytes())["throughput_per_s"]["value"]
        )


def main() -> None:
    """Print a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workloads", nargs="*", help="NAME:SIZE:BATCH_SIZE, the size may be empty")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{find_machine().id}, {given.rounds} rounds by the study and by the profile")
    for workload in given.workloads or WORKLOADS[given.device]:
        study, profile = (
            partial(measure, workload, given.device) for measure in (by_study, by_profile)
        )
        print(f"{workload:20} {compared_in_turns(study, profile, rounds=given.rounds)}", flush=True)


if __name__ == "__main__":
    main()
