"""Why a compiled step may be slower with DistributedDataParallel than without being compiled.

`torchrun --nproc-per-node 2 -m benchmarks.ddp_compile` trains U-Net in bf16, with the training set
on the device: each rank by itself and all by DistributedDataParallel (DDP), eager and compiled.
Compiled code with DDP there is of two kinds: Dynamo divides the graph where a bucket ends, so that
communication can begin during the backward pass, or it keeps the graph whole
(`torch._dynamo.config.optimize_ddp = False`). Each round builds every one anew, in the same
processes, forwards and backwards. It prints of each the graphs that Dynamo compiled, the operations
(on CUDA the kernels) of a step, its time as the median over rounds of the slowest rank with the
least and the greatest of them, and, of the rank that waits least, the communication in the profiled
steps and how much of it is hidden.
"""

import argparse
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch
import torch._dynamo
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.slow_rank import profiled
from benchmarks.trainings import SMALL_UNET, UNET, joined, measurement_of
from gpu_report.measure.profiling import Stepper
from gpu_report.measure.training import Training, build_training, prepare
from gpu_report.measure.world import ALONE, World, leave
from gpu_report.workloads.protocol import load_workload

WARM_UP_STEPS: Final = 3
PROFILED_STEPS: Final = 9
PATIENCE_S: Final = 600


@dataclass(kw_only=True)
class Arm:
    """One way to train; `divides_graph` is what Dynamo does with the graph of
    DistributedDataParallel.
    """

    title: str
    shared: bool
    options: str
    divides_graph: bool = True
    steps: int
    training: Training = field(init=False)
    graphs: int = field(init=False)
    round_ms: list[float] = field(default_factory=list)

    def build(self, world: World, device: torch.device, precision: str) -> None:
        # Else it is trained by the code that was compiled for another arm.
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch._dynamo.config.optimize_ddp = self.divides_graph  # type: ignore[assignment]
        fields = UNET if device.type == "cuda" else SMALL_UNET
        sharing = {
            "strategy": "ddp",
            "devices": world.size,
            "batch_size": world.size * int(fields["batch_size"]),
        }
        asked = measurement_of(
            {
                **fields,
                **(sharing if self.shared else {}),
                "options": self.options,
                "precision": precision,
            },
            device=device.type,
            samples=512,
            steps_per_epoch=1000,
        )
        workload = load_workload(asked.workload, size=asked.variant.size, seed=0)
        self.training = build_training(
            workload,
            asked.variant,
            device=device,
            seed=0,
            steps_per_epoch=1000,
            world=world if self.shared else ALONE,
        )
        prepare(self.training)
        self.training.model.train()
        self.time(world)  # which compiles what is left
        self.graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    def time(self, world: World) -> float:
        """Median of a step in ms, of the slowest rank."""
        stepper = Stepper(self.training, lambda *_: None)
        times_ms = [stepper.train_once() for _ in range(WARM_UP_STEPS + self.steps)]
        return world.agree(statistics.median(times_ms[WARM_UP_STEPS:]), max)

    def operations(self) -> int:
        """Kernels of a step on CUDA; elsewhere calls of PyTorch's operations."""
        on_cuda = self.training.device.type == "cuda"
        stepper = Stepper(self.training, lambda *_: None)
        stepper.train_once()
        with profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_cuda else [])]
        ) as profiler:
            stepper.train_once()
        events = profiler.events() or []
        kind = DeviceType.CUDA if on_cuda else DeviceType.CPU
        return sum(
            event.device_type == kind and (on_cuda or event.name.startswith("aten::"))
            for event in events
        )

    def communication(self, folder: Path) -> str:
        rows = profiled(self.training, folder, PROFILED_STEPS)
        spent = {
            rank: [
                statistics.median(row[name] for row in rows if row["rank"] == rank)
                for name in _COLUMNS
            ]
            for rank in {row["rank"] for row in rows}
        }
        total_ms, hidden_ms = min(spent.values())
        return f"{total_ms:7.2f} ms, {hidden_ms / total_ms:4.0%} hidden" if total_ms else "none"


_COLUMNS: Final = ("communication_ms", "hidden_ms")


def arms(options: str, *, steps: int) -> list[Arm]:
    compiled = f"{options}+compile"
    return [
        Arm(title="one process, eager", shared=False, options=options, steps=steps),
        Arm(title="one process, compiled", shared=False, options=compiled, steps=steps),
        Arm(title="DDP, eager", shared=True, options=options, steps=steps),
        Arm(title="DDP, compiled, divided graph", shared=True, options=compiled, steps=steps),
        Arm(
            title="DDP, compiled, whole graph",
            shared=True,
            options=compiled,
            divides_graph=False,
            steps=steps,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument(
        "--options", default="channelslast+resident", help="of all ways, without compile"
    )
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="timed in each round")
    asked = parser.parse_args()
    world, device = joined("ddp_compile", asked.device, patience_s=PATIENCE_S)
    ways = arms(asked.options, steps=asked.steps)
    if world.rank == 0:
        print(
            f"{world.size} ranks on {asked.device}, {asked.precision}, {asked.options}, "
            f"{asked.rounds} rounds"
        )
    with tempfile.TemporaryDirectory() as own_folder:
        folder = Path(world.gather(own_folder)[0])
        for number in range(asked.rounds):
            for arm in reversed(ways) if number % 2 else ways:
                arm.build(world, device, asked.precision)
                arm.round_ms.append(arm.time(world))
                if number < asked.rounds - 1:
                    continue
                operations = arm.operations()
                exchanged = arm.communication(folder) if arm.shared else "none"
                if world.rank == 0:
                    low, high = min(arm.round_ms), max(arm.round_ms)
                    counts = f"{arm.graphs:3} graphs {operations:6} operations"
                    time = f"{statistics.median(arm.round_ms):8.2f} ms ({low:.2f} to {high:.2f})"
                    print(f"{arm.title:30} {counts} {time}, communication {exchanged}", flush=True)
    world.wait()
    leave(world)


if __name__ == "__main__":
    main()
