"""Commands that write the files of a study, so that it needs no checkout, and an example of a
workload of one's own with a study that trains it.
"""

import os
import re
from argparse import Namespace
from importlib import resources
from keyword import iskeyword
from pathlib import Path
from typing import Final

from gpu_report import __version__
from gpu_report.errors import ConfigError
from gpu_report.printing.terminal import say
from gpu_report.storage.files import write_errors, write_text_atomically
from gpu_report.study.modules import find_module

_LINK_OUT: Final = re.compile(r"\[([^]]+)\]\(\.\./[^)]*\)")
"""To a file of the checkout."""
_NAME: Final = re.compile("[a-z][a-z0-9_]{0,39}")

_MODULE: Final = '''"""A workload of your own: three methods are needed.

Change or delete the rest.
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset


class {Class}:
    # The report describes your data so; a class attribute `title` would name it.
    """Noisy points on a sine curve."""

    # `samples` can be set in {name}.yaml; seed and size may be left out.
    def __init__(self, *, seed, samples=4096):
        self.seed = seed
        self.samples = samples

    # Needed: a new model, on the CPU.
    def build_model(self):
        layers = nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        return nn.Sequential(*layers)

    # Needed: a data set of (input, target), each a tensor or lists, tuples and dicts of tensors.
    def train_data(self):
        return self.points(self.samples, seed=2 * self.seed)

    # Needed: the mean over the samples of a batch.
    def loss(self, output, target):
        return nn.functional.mse_loss(output, target)

    # Instead of `loss`, for batches of any other form, such as a dict:
    # def training_step(self, model, batch):
    #     return model(**batch).loss

    # Without it: AdamW with PyTorch's settings.
    def build_optimizer(self, model):
        return torch.optim.Adam(model.parameters(), lr=3e-3)

    # Without these the report says "not measured": samples that training does not see, a metric.
    def test_data(self):
        return self.points(1024, seed=2 * self.seed + 1)

    quality_name = "RMS error"
    quality_better = "lower"  # without it: higher is better

    def quality(self, output, target):
        return (output - target).square().mean().sqrt().item()

    def chance(self):  # what the metric is of guessing: here, of always answering 0
        return 0.5**0.5

    def points(self, count, *, seed):
        generator = torch.Generator().manual_seed(seed)
        x = 2 * torch.pi * torch.rand(count, 1, generator=generator)
        return TensorDataset(x, torch.sin(x) + 0.1 * torch.randn(count, 1, generator=generator))
'''

_STUDY: Final = """# What is measured of {name}.py; config/README.md of gpu-report lists all keys.
name: {name}
title: How fast does {Class} train?
devices: auto  # the CPU, and one accelerator of each kind
seed: 0

protocol:
  repetitions: 5  # fresh processes, 3 at least; more narrow the 95 % intervals
  profile_steps: 5
  timed_seconds: 0.5  # at least, in each process

workloads:
  {name}: {{class: "{name}:{Class}", samples: 4096}}

experiments:
  {name}_batch_size:
    question: Which batch size trains {Class} fastest?
    axis: batch_size  # or precision, workers, optimization, device, parallelism
    baseline: 64
    grid:
      - {{workload: {name}, device: fastest, batch_size: [64, 512], epochs: 3}}
"""


def write_study(arguments: Namespace) -> None:
    """Write Snakefile, configurations, profiles, environment and README into a new folder, and say
    what to type there.

    Raises:
        ConfigError: the folder has something in it.
        FileWriteError: it cannot be written.
    """
    folder = arguments.folder
    skeleton = resources.files("gpu_report.workflow") / "skeleton"
    with write_errors(folder), resources.as_file(skeleton) as written:
        folder.mkdir(parents=True, exist_ok=True)
        if {each.name for each in folder.iterdir()} - {".git"}:
            raise ConfigError(f"{folder} is not empty; name a new folder")
        for here, _, names in os.walk(written, followlinks=True):
            there = folder / Path(here).relative_to(written)
            there.mkdir(exist_ok=True)
            for name in names:
                text = Path(here, name).read_text("utf-8").replace("==VERSION", f"=={__version__}")
                (there / name).write_text(_LINK_OUT.sub(r"\1", text), "utf-8")
    say(f"wrote {folder}; run there: gpu-report plan, then snakemake --cores 4")


def write_example(arguments: Namespace) -> None:
    """Write NAME.py and NAME.yaml into this folder, and say how to run them.

    Raises:
        ConfigError: the name cannot be that of a module, or belongs to another one or to a file.
    """
    name = arguments.name
    if not _NAME.fullmatch(name) or iskeyword(name):
        raise ConfigError(
            f"{name!r} cannot be a module's name; use at most 40 lower-case letters, digits and _, "
            "and no word of Python"
        )
    files = {Path(f"{name}.py"): _MODULE, Path(f"{name}.yaml"): _STUDY}
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} exists; use another name, or remove it")
    if find_module(name) is not None:
        raise ConfigError(
            f"there is a module {name!r} already, which Python might import instead; use another "
            "name"
        )
    words = {"name": name, "Class": "".join(part.capitalize() for part in name.split("_"))}
    for path, template in files.items():
        write_text_atomically(path, template.format(**words))
    say(
        f"wrote {' and '.join(map(str, files))}; run: gpu-report run --missing --configfile "
        f"{name}.yaml"
    )
