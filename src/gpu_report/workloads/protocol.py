"""What a workload must offer so that it can be measured, and how it is found from the configuration.

study.Workload (class path and settings) -> load_workload -> TrainingWorkload -> model, optimizer, data, loss, quality
"""

import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

from gpu_report.errors import GpuReportError
from gpu_report.study.study import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.utils.data import Dataset


class WorkloadError(GpuReportError):
    """A workload cannot be built: its class, its settings or its data are not usable."""


class TrainingWorkload(Protocol):
    """Something that trains, built as `Class(size=..., seed=..., **settings)`.

    The seed decides the data only: train_data() and test_data() of two workloads with equal size, seed and settings are
    equal, on every machine. Initial weights and the order of samples belong to the measuring.
    """

    @property
    def title(self) -> str:
        """The name a reader sees, for instance `U-Net`."""

    @property
    def quality_name(self) -> str:
        """The quality metric, for instance `Dice`."""

    @property
    def loss_name(self) -> str:
        """The loss, for instance `cross-entropy`."""

    @property
    def optimizer_name(self) -> str:
        """The optimizer with its settings, for instance `Adam, learning rate 0.001`."""

    @property
    def sample_description(self) -> str:
        """One sample in words, for instance `64x64 RGB image, 3 classes`."""

    @property
    def data_description(self) -> str:
        """How the data is generated or where it comes from, in one or two sentences."""

    def build_model(self) -> "nn.Module":
        """A new model on the CPU, its weights drawn from PyTorch's global generator."""

    def build_optimizer(self, model: "nn.Module") -> "Optimizer":
        """A new optimizer over the model's parameters, on whatever device."""

    def train_data(self) -> "Dataset[tuple[Tensor, Tensor]]":
        """Training samples: a sized map-style data set of (input, target), picklable for loader workers."""

    def test_data(self) -> "Dataset[tuple[Tensor, Tensor]]":
        """Held-out samples, drawn independently of the training samples; same form."""

    def loss(self, output: "Tensor", target: "Tensor") -> "Tensor":
        """The training loss, a scalar: the mean over the samples of the batch."""

    def quality(self, output: "Tensor", target: "Tensor") -> float:
        """The quality metric, 0 to 1, larger is better, over the whole held-out set concatenated on the CPU."""

    def chance(self) -> float:
        """The quality that guessing without looking reaches on the held-out set."""


@runtime_checkable
class NamesBlocks(Protocol):
    """What a workload may offer beside TrainingWorkload, so that it can be trained with gradient checkpointing."""

    def checkpointed_blocks(self, model: "nn.Module") -> "Iterable[nn.Module]":
        """Parts of the model built by build_model, none inside another, of one output tensor each.

        With the option `checkpoint` their inputs alone are kept, and everything inside them is computed again in the
        backward pass. Memory falls most where each block keeps many activations and takes few.
        """


@runtime_checkable
class NamesHalves(Protocol):
    """What a workload may offer beside TrainingWorkload, so that two devices can share its model, half by half."""

    def halves(self, model: "nn.Module") -> "tuple[nn.Module, nn.Module]":
        """Two modules which together are the model built by build_model: `second(*first(inputs))` is `model(inputs)`.

        Each parameter and buffer of the model is in one of them. The first returns one or several floating-point
        tensors (in a tuple), samples first, and the loss depends on all of them. The more alike the times that both
        take, the less does one device wait for the other. Where each has a process, both processes draw the batch,
        the first for the inputs and the second for the targets, so the data set must give both the same samples.
        """


class NotHereError(GpuReportError):
    """This machine lacks what a loop needs, such as a compiler; the message says what, and the variant is skipped."""


Phase = Callable[[str], AbstractContextManager[object]]
"""Labels what happens inside it, for a profiler."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A custom training loop, built and compiled: all steps of an epoch in one call, from the initial weights.

    At its end it need not wait for the device.
    """

    train: "Callable[[], Tensor]"
    """Trains, and returns the loss of each step, on the device."""
    put_into_model: Callable[[], None]
    """Sets the model's parameters to those of the last training."""
    find_error: Callable[[], float | None] = lambda: None
    """Largest relative error of the last training, losses included, against a reference of the workload."""
    flops_per_step: float | None = None
    """Floating-point operations, a multiply-add counting as two; None where the work is not counted."""
    bytes_per_step: float | None = None
    """What a step reads and writes at least; None where PyTorch's operators are to be counted."""
    eager_step: Callable[[], object] | None = None
    """One step by PyTorch's operators, for counting them; None where no operators do it."""
    is_made_by_each_process: bool = False
    """Whether every process compiles or captures it again; building it is then recorded as compile and capture time."""


@runtime_checkable
class BringsLoops(TrainingWorkload, Protocol):
    """A workload that is trained by custom training loops instead of that of `measure.training`.

    Its batch is the whole training set, in the device's memory: an epoch of `steps_per_epoch` steps is a training
    from the beginning. Options choose the loop.
    """

    def draw(self, samples: int, split: Literal["train", "test"]) -> "tuple[Tensor, Tensor]":
        """Inputs and targets of this many samples, on the CPU."""

    @property
    def held_out_samples(self) -> int:
        """How many samples of the split `test` are evaluated."""

    def build_loop(
        self, model: "nn.Module", batch: "tuple[Tensor, Tensor]", *, options: str, steps: int, phase: Phase
    ) -> Loop:
        """The loop of these options over a batch on the model's device, ready to run.

        Raises:
            WorkloadError: it has no loop of these options.
            NotHereError: the machine lacks what the loop needs.
        """


PARTS: Final = tuple(
    name for name, member in vars(TrainingWorkload).items() if not name.startswith("_") and not isinstance(member, type)
)
"""The names a workload must have."""


def load_workload(workload: Workload, *, size: str, seed: int) -> TrainingWorkload:
    """Import the class of a configured workload and build it: its module's code runs with the user's rights.

    Raises:
        WorkloadError: the module or the class is missing, a setting is unknown or missing, or the class lacks a part of
            the protocol.
    """
    workload_class = _import_class(workload)
    arguments = {"size": size, "seed": seed, **workload.settings}
    try:
        inspect.signature(workload_class).bind(**arguments)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(workload_class).parameters)
        raise WorkloadError(
            f"workloads.{workload.name}: {workload.class_path} cannot be built: {error}; it takes {accepted}"
        ) from error
    built: TrainingWorkload = workload_class(**arguments)
    missing = [part for part in PARTS if not hasattr(built, part)]
    if missing:
        raise WorkloadError(
            f"workloads.{workload.name}: {workload.class_path} lacks {', '.join(missing)}; "
            "gpu_report.workloads.protocol.TrainingWorkload says what each part must do"
        )
    return built


def _import_class(workload: Workload) -> type[TrainingWorkload]:
    module_name, _, class_name = workload.class_path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"workloads.{workload.name}: cannot import {module_name}: {error}; "
            "install it or put its folder on PYTHONPATH"
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = ", ".join(sorted(name for name, value in vars(module).items() if isinstance(value, type)))
        raise WorkloadError(
            f"workloads.{workload.name}: {module_name} has no class {class_name!r}; it has: {classes or 'no class'}"
        )
    return found
