"""How much longer a step takes under the profiler, by what is recorded.

`python -m benchmarks.profile_overhead` goes through the settings in turns, a few steps of one
training each, and prints the ratio of the median step to the median one without the profiler; every
step ends with a device synchronization. `light` and `rich` are the two profiles of a study; the
light one leaves out, by functions that PyTorch keeps private (2.11 to 2.15 have them), operations
of the loader and the number that the driver receives with each operation. The other settings leave
out one of the two, or nothing.
"""

import argparse
import os
import statistics
from contextlib import nullcontext
from typing import Any, Final

import torch
from torch.profiler import profile

from gpu_report.measure.profiling import LIGHT, RICH, Stepper, activities_of
from gpu_report.measure.training import Training, build_training, prepare
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Workload
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import load_workload

TRAININGS: Final[dict[str, dict[str, Any]]] = {
    "CNN small, batch 1": {"workload": "cnn", "size": "small", "batch_size": 1},
    "CNN medium, batch 64": {"workload": "cnn", "size": "medium", "batch_size": 64},
    "LSTM, batch 64": {"workload": "lstm", "batch_size": 64},
    "Transformer, batch 64": {"workload": "transformer", "batch_size": 64},
    "U-Net bf16, batch 16": {
        "workload": "unet",
        "size": "128px",
        "batch_size": 16,
        "precision": "bf16",
    },
}
SAMPLES: Final = 640
WARM_UP_STEPS: Final = 20
SETTINGS: Final[dict[str, tuple[dict[str, Any] | None, bool]]] = {
    "none": (None, True),
    "whole": ({}, True),
    "no loader": ({}, False),
    "no numbers": (LIGHT, True),
    "light": (LIGHT, False),
    "rich": (RICH, True),
}
"""What the profiler is asked for, None without one; and whether the loader's operations are
recorded.
"""


def prepared_training(fields: dict[str, Any], *, device: str, steps: int) -> Training:
    """A training whose epoch has that many steps, built and prepared in this process."""
    variant = Variant(**fields, device=device, epochs=2, steps_per_epoch=steps)
    asked = Workload(
        name=variant.workload,
        class_path=BUILT_IN_WORKLOADS[variant.workload].class_path,
        settings={"train_samples": SAMPLES, "test_samples": 64},
    )
    workload = load_workload(asked, size=variant.size, seed=0)
    training = build_training(
        workload, variant, device=torch.device(device), seed=0, steps_per_epoch=steps
    )
    prepare(training)
    return training


def times_ms(stepper: Stepper, setting: str, *, device: torch.device, steps: int) -> list[float]:
    asked, with_loader = SETTINGS[setting]
    profiler = (
        nullcontext() if asked is None else profile(activities=activities_of(device), **asked)
    )
    with profiler:
        return [stepper.train_once(loading_unrecorded=not with_loader) for _ in range(1 + steps)][
            1:
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4, help="of each round and setting")
    arguments = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    for name, fields in TRAININGS.items():
        steps = WARM_UP_STEPS + arguments.rounds * len(SETTINGS) * (1 + arguments.steps) + 1
        training = prepared_training(fields, device=arguments.device, steps=steps)
        training.model.train()
        stepper = Stepper(training, lambda _epoch, _step: None)
        times_ms(stepper, "none", device=device, steps=WARM_UP_STEPS - 1)
        found: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
        for number in range(arguments.rounds):
            for setting in SETTINGS if number % 2 else reversed(SETTINGS):
                found[setting] += times_ms(stepper, setting, device=device, steps=arguments.steps)
        plain_ms = statistics.median(found.pop("none"))
        ratios = ", ".join(
            f"{setting} {statistics.median(each) / plain_ms:.2f}" for setting, each in found.items()
        )
        print(f"{name:22} {plain_ms:8.2f} ms a step; {ratios}", flush=True)


if __name__ == "__main__":
    main()
