"""How often `gpu_report.profile` names a planted bottleneck first, and how often it finds something
in a clean run.

`python -m benchmarks.planted_bottlenecks` builds models that it has not seen before (convolutions
or token mixers of random width, depth and input), plants one cause in each, and asks profile() what
limits the training. What is named first is the first suggestion of the card or, without one, the
limit. A clean run is right where the limit is kernels and nothing is suggested. Where the card says
that data are insufficient or that a limit is not resolved, it gave no answer, right or wrong. Every
run prints a line, and the end is a table. The plants take turns, so that `--minutes` may end it
anywhere.

On CUDA a clean model computes in bf16 on a batch that is on the GPU, and the batch is doubled until
launching a step takes at most half as long as the step: a model that the host paces is not clean.
On the CPU only those causes are planted that exist there.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from multiprocessing import get_context
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gpu_report import Profile, profile
from gpu_report.measure.memory import MemoryMeter

CLASSES: Final = 10
MIB: Final = 2**20
PACED_BY_HOST: Final = frozenset(
    {
        "launching",
        "Python between two operations",
        "accelerator busy",
        "launch-bound",
        "short operations",
    }
)
NOTHING: Final = frozenset({"kernels"})
MOST_LAUNCHING: Final = 0.5
LARGEST_BATCH: Final = 1024


class Block(nn.Module):
    """A residual layer; the tokens or pixels of a sample are its last axis but one, or its last
    two.
    """

    def __init__(self, width: int, *, is_image: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width) if is_image else nn.LayerNorm(width)
        self.layers = (
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1),
            )
            if is_image
            else nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        )

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = inputs + self.layers(self.norm(inputs))
        return found


class Model(nn.Module):
    """Blocks with a classifier; `after_block` is what a plant does to the output of each."""

    def __init__(self, shape: "Shape", *, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.first: nn.Module = (
            nn.Conv2d(3, shape.width, 3, padding=1) if shape.is_image else nn.Identity()
        )
        self.blocks = nn.ModuleList(
            Block(shape.width, is_image=shape.is_image) for _ in range(shape.depth)
        )
        self.last = nn.Linear(shape.width, CLASSES)
        self.after_block: Callable[[Tensor], Tensor] = lambda output: output

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast(inputs.device.type, self.dtype) if self.dtype else nullcontext():
            found = self.first(inputs)
            for block in self.blocks:
                found = self.after_block(block(found))
            scores: Tensor = self.last(found.mean((2, 3) if self.shape.is_image else 1))
        return scores.float()


@dataclass(frozen=True, kw_only=True)
class Shape:
    """`side` is pixels of an image's side, or tokens."""

    is_image: bool
    width: int
    depth: int
    side: int
    batch: int

    def batch_of(self, device: torch.device) -> tuple[Tensor, Tensor]:
        size = (3, self.side, self.side) if self.is_image else (self.side, self.width)
        return (
            torch.randn(self.batch, *size, device=device),
            torch.randint(0, CLASSES, (self.batch,), device=device),
        )


@dataclass
class Case:
    """What profile() is called with; a plant changes it."""

    model: Model
    device: torch.device
    batch: tuple[Tensor, Tensor]
    kept: list[Tensor] = field(default_factory=list)
    loader: Any = None

    def found(self, seconds: float) -> Profile:
        given: dict[str, Any] = {"loader": self.loader} if self.loader else {"batch": self.batch}
        with redirect_stdout(StringIO()):
            return profile(self.model, loss=cross_entropy, device="auto", seconds=seconds, **given)

    def step_s(self) -> tuple[float, float]:
        """Seconds of a clean step, roughly: until all its work is launched, and until it is
        done.
        """
        launched_s, done_s = [], []
        for _ in range(2 + 5):
            started_s = time.perf_counter()
            cross_entropy(self.model(self.batch[0]), self.batch[1]).backward()  # type: ignore[no-untyped-call]
            launched_s.append(time.perf_counter() - started_s)
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            done_s.append(time.perf_counter() - started_s)
        self.model.zero_grad(set_to_none=True)
        return statistics.median(launched_s[2:]), statistics.median(done_s[2:])


def slow_loader(case: Case, draw: random.Random) -> None:
    """Each batch takes longer to make than the step on it."""
    decode_s = draw.uniform(1.5, 4) * case.step_s()[1]

    class Loader:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            for _ in range(1000):
                end = time.perf_counter() + decode_s
                while time.perf_counter() < end:
                    pass
                yield case.batch

    case.loader = Loader()


def waits_in_each_step(case: Case, draw: random.Random) -> None:
    """A check that fetches a number from the device after each block."""
    every = draw.choice((1, 2))
    calls = 0

    def check(output: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls % every == 0 and output.isnan().any().item():
            raise ValueError("NaN")
        return output

    case.model.after_block = check


def in_fp32(case: Case, draw: random.Random) -> None:
    """Matrix products in fp32, which PyTorch computes without TF32 unless it is allowed."""
    case.model.dtype = None


def tiny_batch(case: Case, draw: random.Random) -> None:
    """A sample or two at a time, of a model that is small for its device."""
    shape = replace(
        case.model.shape,
        batch=draw.choice((1, 2)),
        width=32,
        side=8,
        depth=2 * case.model.shape.depth,
    )
    case.model, case.batch = (
        Model(shape, dtype=case.model.dtype).to(case.device),
        shape.batch_of(case.device),
    )


def unpinned_copies(case: Case, draw: random.Random) -> None:
    """Batches of large images in pageable memory of the host, copied in each step of a model with
    little to compute.
    """
    shape = replace(case.model.shape, width=draw.choice((16, 32)), depth=1, side=128)
    case.model, case.batch = (
        Model(shape, dtype=case.model.dtype).to(case.device),
        shape.batch_of(torch.device("cpu")),
    )


def growing_memory(case: Case, draw: random.Random) -> None:
    """A list that keeps features of every step, and fills the memory within a training's steps."""
    bytes_of_step = MemoryMeter(case.device).free_mib() * MIB / draw.randint(10_000, 50_000)

    def keep(output: Tensor) -> Tensor:
        numbers = round(bytes_of_step / case.model.shape.depth / output.element_size())
        features = output.detach().flatten()
        case.kept.append(features.repeat(math.ceil(numbers / len(features)))[:numbers].clone())
        return output

    case.model.after_block = keep


def small_operations(case: Case, draw: random.Random) -> None:
    """A loop over channels in Python, one small operation after the other."""
    loops = draw.randint(4, 8)

    def by_channel(output: Tensor) -> Tensor:
        small = output.flatten(1)[:1, :64]
        for _ in range(loops):
            small = torch.stack([part * 1.01 for part in small.unbind(1)], 1)
        return output + 0 * small.sum()

    shape = replace(case.model.shape, batch=4, width=32, side=8)
    case.model, case.batch = (
        Model(shape, dtype=case.model.dtype).to(case.device),
        shape.batch_of(case.device),
    )
    case.model.after_block = by_channel


def clean(case: Case, draw: random.Random) -> None:
    """Nothing is planted."""


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What is planted, which of profile()'s names for it are right, and whether a CPU has
    it, too.
    """

    plant: Callable[[Case, random.Random], None]
    right: frozenset[str]
    on_cpu: bool = True
    is_image: bool | None = None


PLANTS: Final = (
    Plant(plant=slow_loader, right=frozenset({"data loader", "waiting for data"})),
    Plant(plant=waits_in_each_step, right=frozenset({"synchronising calls"}), on_cpu=False),
    Plant(plant=in_fp32, right=frozenset({"tensor cores"}), on_cpu=False, is_image=False),
    Plant(plant=tiny_batch, right=PACED_BY_HOST),
    Plant(plant=unpinned_copies, right=frozenset({"pageable copies"}), on_cpu=False, is_image=True),
    Plant(plant=growing_memory, right=frozenset({"growing memory"})),
    Plant(plant=small_operations, right=PACED_BY_HOST),
    Plant(plant=clean, right=NOTHING),
)


def drawn(draw: random.Random, device: torch.device, *, is_image: bool | None) -> Case:
    on_cpu = device.type == "cpu"
    image = draw.random() < 0.5 if is_image is None else is_image
    shape = Shape(
        is_image=image,
        width=draw.choice(
            ((32, 48, 64) if image else (192, 256))
            if on_cpu
            else (128, 192, 256)
            if image
            else (768, 1024)
        ),
        depth=draw.randint(2, 3) if on_cpu else draw.randint(3, 6),
        side=draw.choice((32, 48) if image else (64, 128))
        if on_cpu
        else draw.choice((48, 64) if image else (128, 256)),
        batch=draw.choice((8, 16)) if on_cpu else draw.choice((64, 128)),
    )
    dtype = None if on_cpu else torch.bfloat16
    case = Case(
        model=Model(shape, dtype=dtype).to(device), device=device, batch=shape.batch_of(device)
    )
    while not on_cpu and case.model.shape.batch < LARGEST_BATCH:
        launched_s, done_s = case.step_s()
        if launched_s <= MOST_LAUNCHING * done_s:
            break
        case.model.shape = replace(case.model.shape, batch=2 * case.model.shape.batch)
        case.batch = case.model.shape.batch_of(device)
    return case


def first_cause(found: Profile) -> str:
    if found.problem:
        return found.problem
    return found.suggestions[0].rule if found.suggestions else found.limit


def one_run(
    name: str, run: int, *, device: torch.device, seed: int, seconds: float
) -> tuple[str, str, float]:
    """`right`, `wrong` or `no answer`, the run in words, and what the call took in s."""
    (each,) = (plant for plant in PLANTS if plant.plant.__name__ == name)
    draw = random.Random(f"{seed} {name} {run}")
    torch.manual_seed(draw.randrange(2**31))
    case = drawn(draw, device, is_image=each.is_image)
    each.plant(case, draw)
    started = time.perf_counter()
    found = case.found(seconds)
    took_s = time.perf_counter() - started
    cause, shape = first_cause(found), case.model.shape
    words = (
        f"{cause} ({'image' if shape.is_image else 'tokens'}, width {shape.width}, depth "
        f"{shape.depth}, side {shape.side}, batch {shape.batch}, {found.measured.step_ms:.3g} ms "
        "a step)"
    )
    return (
        "right" if cause in each.right else "no answer" if found.problem else "wrong",
        words,
        took_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--runs", type=int, default=10, help="of each plant; twice as many are clean"
    )
    parser.add_argument("--plants", nargs="*", default=[plant.plant.__name__ for plant in PLANTS])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="start no run after this time"
    )
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    chosen = [
        each
        for each in PLANTS
        if each.plant.__name__ in arguments.plants and (device.type != "cpu" or each.on_cpu)
    ]
    wanted = {
        each.plant.__name__: arguments.runs * (2 if each.right is NOTHING else 1) for each in chosen
    }
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in wanted}
    began_s = time.monotonic()
    # Of a process on the CPU the free memory hides what a later run keeps; one on CUDA takes
    # seconds to start.
    each_run = 1 if device.type == "cpu" else None
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), max_tasks_per_child=each_run
    ) as process:
        turns = sorted(
            (run / runs, name, run) for name, runs in wanted.items() for run in range(runs)
        )
        for _, name, run in turns:
            if time.monotonic() - began_s > 60 * arguments.minutes:
                break
            verdict, words, took_s = process.submit(
                one_run, name, run, device=device, seed=arguments.seed, seconds=arguments.seconds
            ).result()
            found[name].append((verdict, took_s))
            print(f"{name} {run}: {verdict}: {words}", flush=True)
    print(f"\non {device_name(device)}, torch {torch.__version__}:")
    print(
        f"{'planted':20} {'runs':>5} {'right':>6} {'wrong':>6} {'no answer':>10} "
        f"{'a call takes':>13}"
    )
    for name, runs in found.items():
        if runs:
            right, wrong, none = (
                sum(each == word for each, _ in runs) for word in ("right", "wrong", "no answer")
            )
            took_s = statistics.median(time_s for _, time_s in runs)
            print(
                f"{name.replace('_', ' '):20} {len(runs):5} {right:6} {wrong:6} {none:10} "
                f"{took_s:11.1f} s"
            )


def device_name(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"{torch.get_num_threads()} threads of the CPU"
    )


if __name__ == "__main__":
    main()
