"""What a workload must offer so that it can be measured, and how it is found from the
configuration.

study.Workload (class path and settings) -> load_workload -> TrainingWorkload -> model, optimizer,
data, loss, quality
"""

import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

from gpu_report.errors import GpuReportError, lacking
from gpu_report.study.options import ATTENTION
from gpu_report.study.study import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.utils.data import Dataset


class WorkloadError(GpuReportError):
    """A workload cannot be built: its class, its settings or its data are not usable."""


class TrainingWorkload(Protocol):
    """Something that trains, built as `Class(size=..., seed=..., **settings)`, without the first
    two if it has no use.

    A class must have `build_model`, `train_data` and `loss` or `training_step`; the rest has
    defaults, which `with_defaults` fills in: AdamW, no held-out samples, no metric. A text that is
    empty is written from the code.

    The seed decides the data only: train_data() and test_data() of two workloads with equal size,
    seed and settings are equal, on every machine. Initial weights and the order of samples belong
    to the measuring.
    """

    @property
    def title(self) -> str:
        """The name a reader sees, for instance `U-Net`."""

    @property
    def quality_name(self) -> str:
        """The quality metric, for instance `Dice`; empty where there is none."""

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
        """Training samples: a sized map-style data set of (input, target), picklable for loader
        workers.

        Both may be any nesting of tensors and numbers; with `training_step` so may be the sample.
        """

    def test_data(self) -> "Dataset[tuple[Tensor, Tensor]] | None":
        """Held-out samples, drawn independently of the training samples; same form. None where
        there are none.
        """

    def loss(self, output: "Tensor", target: "Tensor") -> "Tensor":
        """The training loss, a scalar: the mean over the samples of the batch."""

    def quality(self, output: "Tensor", target: "Tensor") -> float:
        """The quality metric over the whole held-out set concatenated on the CPU; larger is better.

        With `training_step` it gets (model, batches) on the device. DeclaresBetter says that
        smaller is better.
        """

    def chance(self) -> float | None:
        """The quality that guessing without looking reaches on the held-out set; None where it is
        unknown.
        """


@runtime_checkable
class StepsItself(Protocol):
    """What a workload may offer instead of `loss`: the forward pass and the loss of a whole batch,
    however nested.
    """

    def training_step(self, model: "nn.Module", batch: Any) -> "Tensor":
        """The loss of a batch on the model's device, a scalar: the mean over the samples.

        The model, which may be wrapped by what shares it, must be called itself. On held-out
        samples no gradients are recorded.
        """


@runtime_checkable
class BringsBatches(TrainingWorkload, StepsItself, Protocol):
    """What a workload of one's own is that was called from Python: its batches come ready, and
    whoever trains it takes them.

    `train_data` holds the one batch for which steps are compiled and captured, if they are.
    """

    def build_optimizer(self, model: "nn.Module") -> "Optimizer":
        """An optimizer over the model's parameters on their device."""

    def collate(self, batches: "list[Any]") -> "list[Any]":
        """Inputs and targets, as the loop takes them, of one batch in a list."""

    @property
    def keeps_settings(self) -> bool:
        """Whether it computes as this process is set; else precision and seed are set."""


@runtime_checkable
class DeclaresBetter(Protocol):
    """What a workload may offer beside TrainingWorkload, whose quality falls with better models."""

    quality_better: str
    """`higher` or `lower`."""


HELD_OUT_LOSS: Final = "loss"
"""The `quality_name` of a workload without `quality`, whose metric is the mean held-out loss."""


@runtime_checkable
class CountsTokens(Protocol):
    """What a workload may offer beside TrainingWorkload, whose samples are sequences of tokens."""

    @property
    def tokens_per_sample(self) -> int:
        """How many tokens each sample trains on."""


@runtime_checkable
class CountsOperations(CountsTokens, Protocol):
    """What such a workload may offer besides, else the operations of an eager step count."""

    def flops_per_token(self) -> tuple[float, str]:
        """Floating-point operations that training needs per token, a multiply-add counting as two,
        and the formula in words, with its numbers.
        """


@runtime_checkable
class ChoosesAttention(Protocol):
    """What a workload may offer whose eager baseline is not to leave the choice of the attention
    kernel to PyTorch.
    """

    eager_attention: str
    """`math`, `efficient`, `flash` or `cudnn`; an option of that kind takes its place."""


@runtime_checkable
class NamesBlocks(Protocol):
    """What a workload may offer beside TrainingWorkload, so that it can be trained with gradient
    checkpointing.
    """

    def checkpointed_blocks(self, model: "nn.Module") -> "Iterable[nn.Module]":
        """Parts of the model built by build_model, none inside another, of one output tensor each.

        With the option `checkpoint` their inputs alone are kept, and everything inside them is
        computed again in the backward pass. Memory falls most where each block keeps many
        activations and takes few.
        """


@runtime_checkable
class NamesPieces(Protocol):
    """What a workload may offer beside TrainingWorkload, so that several devices can share its
    model.
    """

    def pieces(self, model: "nn.Module") -> "Iterable[nn.Module]":
        """Modules which one after the other are the model built by build_model: of three,
        `third(second(first(x)))`.

        A piece returns one or several floating-point tensors (in a tuple), samples first, and the
        next takes them as its arguments; the loss depends on all of them. Each parameter and buffer
        of the model is in one piece. Each device gets some that follow each other: finer pieces
        balance the devices better. In a pipeline every process draws the batch, the first for the
        inputs and the last for the targets, so the data set must give all of them the same samples.
        """


class NotHereError(GpuReportError):
    """This machine lacks what a loop needs, such as a compiler; the message says what, and the
    variant is skipped.
    """


Phase = Callable[[str], AbstractContextManager[object]]
"""Labels what happens inside it, for a profiler."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A custom training loop, built and compiled: all steps of an epoch in one call, from the
    initial weights.

    At its end it need not wait for the device.
    """

    train: "Callable[[], Tensor]"
    """Trains, and returns the loss of each step, on the device."""
    put_into_model: Callable[[], None]
    """Sets the model's parameters to those of the last training."""
    find_error: Callable[[], float | None] = lambda: None
    """Largest relative error of the last training, losses included, against a reference of the
    workload.
    """
    flops_per_step: float | None = None
    """Floating-point operations, a multiply-add counting as two; None where the work is not
    counted.
    """
    bytes_per_step: float | None = None
    """What a step reads and writes at least; None where PyTorch's operators are to be counted."""
    eager_step: Callable[[], object] | None = None
    """One step by PyTorch's operators, for counting them; None where no operators do it."""
    is_made_by_each_process: bool = False
    """Whether every process compiles or captures it again; building it is then recorded as compile
    and capture time.
    """


@runtime_checkable
class BringsLoops(TrainingWorkload, Protocol):
    """A workload that is trained by custom training loops instead of that of `measure.training`.

    Its batch is the whole training set, in the device's memory: an epoch of `steps_per_epoch` steps
    is a training from the beginning. Options choose the loop.
    """

    def draw(self, samples: int, split: Literal["train", "test"]) -> "tuple[Tensor, Tensor]":
        """Inputs and targets of this many samples, on the CPU."""

    @property
    def held_out_samples(self) -> int:
        """How many samples of the split `test` are evaluated."""

    def build_loop(
        self,
        model: "nn.Module",
        batch: "tuple[Tensor, Tensor]",
        *,
        options: str,
        steps: int,
        phase: Phase,
    ) -> Loop:
        """The loop of these options over a batch on the model's device, ready to run.

        Raises:
            WorkloadError: it has no loop of these options.
            NotHereError: the machine lacks what the loop needs.
        """


class _Defaults:
    """What a workload need not have; the texts are written from the code where they are empty."""

    title = loss_name = optimizer_name = sample_description = data_description = quality_name = ""

    @staticmethod
    def build_optimizer(model: "nn.Module") -> "Optimizer":
        from torch.optim import AdamW

        return AdamW(model.parameters())

    @staticmethod
    def test_data() -> None:
        """No held-out samples."""

    @staticmethod
    def quality(*_: object) -> float:
        """Never called, as it has no name."""
        raise NotImplementedError

    @staticmethod
    def chance() -> None:
        """Unknown."""


NO_QUALITY: Final = _Defaults.quality
"""What a workload without a metric of its own has."""
PARTS: Final = tuple(
    name
    for name, member in vars(TrainingWorkload).items()
    if not name.startswith("_") and not isinstance(member, type)
)
"""The names of a workload's parts."""
_NEEDED: Final = tuple(name for name in PARTS if not hasattr(_Defaults, name))
_DIRECTIONS: Final = ("higher", "lower")


def with_defaults(built: Any) -> TrainingWorkload:
    """An object with the needed parts of a workload, to which those that it lacks are added.

    Raises:
        WorkloadError: it lacks a needed part, or its parts contradict each other.
    """
    name = type(built).__name__
    has_step = isinstance(built, StepsItself)
    lacking = [
        part for part in _NEEDED if not hasattr(built, part) and not (part == "loss" and has_step)
    ]
    if lacking:
        raise WorkloadError(
            f"{name} lacks {', '.join(lacking)}; a workload needs build_model, train_data, and "
            "loss or training_step: gpu-report new-workload NAME writes an example"
        )
    is_loss = getattr(built, "quality_name", "") == HELD_OUT_LOSS and not hasattr(built, "quality")
    measured = "test_data" if is_loss else "quality"
    for part, base in (
        ("quality", "test_data"),
        ("quality_name", measured),
        ("chance", measured),
    ):
        if hasattr(built, part) and not hasattr(built, base):
            raise WorkloadError(f"{name} has {part} and no {base}; add {base}, or leave {part} out")
    if isinstance(built, DeclaresBetter) and built.quality_better not in _DIRECTIONS:
        raise WorkloadError(
            f"{name}.quality_better is {built.quality_better!r}; use {' or '.join(_DIRECTIONS)}"
        )
    attention = getattr(built, "eager_attention", "math")
    if attention not in ("math", *ATTENTION):
        raise WorkloadError(
            f"{name}.eager_attention is {attention!r}; use math, {' or '.join(ATTENTION)}"
        )
    added = {
        part: getattr(_Defaults, part)
        for part in PARTS
        if not hasattr(built, part) and part not in _NEEDED
    }
    if hasattr(built, "quality") and not hasattr(built, "quality_name"):
        added["quality_name"] = "metric"
    if is_loss:
        if getattr(built, "quality_better", "lower") != "lower":
            raise WorkloadError(f"{name}.quality_better: a held-out loss is better where lower")
        added["quality_better"] = "lower"
    try:
        for part, default in added.items():
            object.__setattr__(built, part, default)  # a frozen dataclass refuses the usual way
    except AttributeError as error:
        raise WorkloadError(
            f"{name}: defaults cannot be added to a class with __slots__; leave them out"
        ) from error
    complete: TrainingWorkload = built
    return complete


def load_workload(workload: Workload, *, size: str, seed: int) -> TrainingWorkload:
    """Import the class of a configured workload and build it: its module's code runs with the
    user's rights.

    Raises:
        WorkloadError: the module or the class is missing, a setting is unknown or missing, or the
            class lacks a part of the protocol.
    """
    workload_class = _import_class(workload)
    accepted = inspect.signature(workload_class).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    may_lack = {"seed", "size"} if size == "default" else {"seed"}
    asked = {"size": size, "seed": seed, **workload.settings}
    arguments = {
        name: asked[name] for name in asked if takes_any or name in accepted or name not in may_lack
    }
    try:
        inspect.signature(workload_class).bind(**arguments)
    except TypeError as error:
        raise WorkloadError(
            f"workloads.{workload.name}: {workload.class_path} cannot be built: {error}; "
            f"it takes {', '.join(accepted) or 'no arguments'}"
        ) from error
    built = workload_class(**arguments)
    try:
        return with_defaults(built)
    except WorkloadError as error:
        raise WorkloadError(f"workloads.{workload.name}: {error}") from error


def _import_class(workload: Workload) -> type[TrainingWorkload]:
    module_name, _, class_name = workload.class_path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if module_name.startswith("gpu_report."):
            raise WorkloadError(f"workloads.{workload.name}: {lacking(error)}") from error
        raise WorkloadError(
            f"workloads.{workload.name}: cannot import {module_name}: {error}; "
            "install it or put its folder on PYTHONPATH"
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = ", ".join(
            sorted(name for name, value in vars(module).items() if isinstance(value, type))
        )
        raise WorkloadError(
            f"workloads.{workload.name}: {module_name} has no class {class_name!r}; it has: "
            f"{classes or 'no class'}"
        )
    return found
