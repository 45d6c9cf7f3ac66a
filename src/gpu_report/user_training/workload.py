"""A training of a user's own as a workload that the study's loop trains: their model, batch, loss,
optimizer and loader, or a callable that does it all.

UserWorkload -> build_training -> UserStep -> a batch, from the loader or the one that was given ->
train_step
"""

import copy
import inspect
import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.optim import AdamW, Optimizer
from torch.profiler import record_function
from torch.utils.data.dataloader import _BaseDataLoaderIter

from gpu_report.errors import MachineError, ProfileError
from gpu_report.measure.building import Training, build_training
from gpu_report.measure.nested import Nested, leaves, mapped
from gpu_report.measure.probe import why_not_present
from gpu_report.measure.profiling import unrecorded
from gpu_report.measure.timing import synchronize
from gpu_report.measure.training import prepare, train_step
from gpu_report.study.options import joined
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import BringsBatches, Phase, with_defaults

LossFunction = Callable[[Any, Any], Tensor]
"""Takes the model's output and the target, or the whole batch where that is a mapping."""

_LOSSES: Final = (
    "a scalar, an output with .loss or ['loss'], a mapping of losses, or a tuple that holds one "
    "scalar"
)
_HALF_EPS: Final = 1e-4
"""AdamW's own, 1e-8, is 0 in float16, which makes parameters NaN."""


class Loading:
    """Batches of a loader without an end: it is asked for another iterator where one has ended.

    `cpu_s` is how long this thread was on the CPU in all calls of `take`.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self._batches: Iterator[Any] = iter(())
        self._taken = 0
        self.cpu_s = 0.0

    def take(self, *, phase: Phase) -> Any:
        """The next batch; with record_function as the phase, the wait for it is marked as a
        DataLoader marks it.

        Raises:
            ProfileError: the loader raises, or has ended and cannot begin anew.
        """
        cpu_s = time.thread_time()
        with phase(f"enumerate(DataLoader)#{type(self._loader).__name__}.__next__"):
            batch = self._next(phase)
            if batch is _ENDED:
                self._batches = iter(self._loader)
                batch = self._next(phase)
            if batch is _ENDED and not self._taken:
                raise ProfileError(
                    f"loader: {type(self._loader).__name__} has no batch; expected at least one"
                )
            if batch is _ENDED:
                raise ProfileError(
                    f"loader: {type(self._loader).__name__} ended after {self._taken} batches and "
                    "cannot begin anew; give a DataLoader, a list or another iterable, not an "
                    "iterator"
                )
        self._taken += 1
        self.cpu_s += time.thread_time() - cpu_s
        return batch

    def _next(self, phase: Phase) -> Any:
        is_muted = phase is record_function and isinstance(self._batches, _BaseDataLoaderIter)
        try:
            with unrecorded(self._batches) if is_muted else nullcontext():
                return next(self._batches, _ENDED)
        except Exception as error:
            raise ProfileError(
                f"loader: {type(self._loader).__name__} raised {in_one_line(error)}; expected "
                f"batch {self._taken + 1}"
            ) from error


_ENDED: Final = object()


def in_one_line(error: BaseException) -> str:
    """An exception of the user's code, by its type and the first line of what it says.

    PyTorch raises that of a DataLoader's worker anew, with the traceback as its text.
    """
    said = str(error).strip().splitlines() or [""]
    if caught := re.match(r"Caught (\w+) in DataLoader worker", said[0]):
        raised = [line for line in said if line.partition(":")[0].rpartition(".")[2] == caught[1]]
        return f"{said[0]} {[*said, *raised][-1]}"
    return f"{type(error).__name__}: {said[0]}"


def named_function(name: str) -> Callable[..., Any]:
    """The function of this name, `package.module:function`.

    Raises:
        ProfileError: the module cannot be imported, or has no such function.
    """
    module_name, _, function_name = name.partition(":")
    function = None
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:
        todo = "repair it"
        if isinstance(error, ModuleNotFoundError):
            is_itself = error.name and (module_name + ".").startswith(error.name + ".")
            todo = "run this in its folder" if is_itself else f"install {error.name} here"
        if isinstance(error, SystemExit):
            todo = 'put what it runs under `if __name__ == "__main__":`'
        raise ProfileError(
            f"{name}: importing {module_name!r} raised {in_one_line(error)}; {todo}"
        ) from error
    with suppress(AttributeError):
        function = attrgetter(function_name)(module) if function_name else None
    if not callable(function):
        raise ProfileError(
            f"{name}: there is no such function; expected module:function, for instance "
            "train:build_model"
        )
    return function  # type: ignore[no-any-return]


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Those that require gradients.

    Raises:
        ProfileError: there is none.
    """
    trained = [each for each in model.parameters() if each.requires_grad]
    if not trained:
        raise ProfileError(
            f"model: {type(model).__name__} has no parameter that requires gradients to train"
        )
    return trained


def default_optimizer(model: nn.Module) -> Optimizer:
    """AdamW with its defaults, but for parameters in float16 an `eps` that they can hold.

    Raises:
        ProfileError: the model has no parameter to train.
    """
    parameters = trained_parameters(model)
    is_half = any(each.dtype == torch.float16 for each in parameters)
    return AdamW(parameters, eps=_HALF_EPS) if is_half else AdamW(parameters)


EXPECTED: Final = {
    "step": "a step that trains",
    "batch": "tensors that can be copied to the device",
    "model": "one that takes the batch, or of a pair its first part (any other call fits in step=)",
    "loss": "a function that takes the model's output and the target, or output and batch where "
    "that is a mapping",
    "backward": "a loss that can be followed back",
    "optimizer": "one whose step() takes no argument and that can train these parameters (give "
    "yours as optimizer=)",
}
"""Of the parts of a step."""


IMAGES: Final = len("NCHW")


class UserWorkload:
    """A model of the user's own and what trains it, as `build_training` takes it.

    Args:
        build_model: Returns the model, which may be one that is built already.
        batch: For which steps are compiled and captured; None where a loader gives batches.
        loss: None where the model returns the loss.
        build_optimizer: Returns the optimizer of the model; None for AdamW with its defaults.
        device: Where the model is trained.
        accumulate: Batches whose gradients are added up before the optimizer steps.
        samples: Of a batch, or a function of the batch that returns them; None to count them.
        keeps_settings: Whether the process stays set as it is.
    """

    def __init__(
        self,
        build_model: Callable[[], nn.Module],
        batch: Any,
        *,
        loss: LossFunction | None,
        build_optimizer: Callable[[nn.Module], Optimizer] | None,
        device: torch.device,
        accumulate: int = 1,
        samples: int | Callable[[Any], int] | None = None,
        keeps_settings: bool = False,
    ) -> None:
        self.build_model, self.build_optimizer = build_model, build_optimizer or default_optimizer
        self._batch, self._loss = batch, loss
        self._device = device
        self.accumulate, self._samples = accumulate, samples
        self.keeps_settings = keeps_settings
        self.part = "model"

    def train_data(self) -> Any:
        """The batch that is compiled and captured for."""
        return [self._batch]

    def loss(self, output: Any, target: Any) -> Tensor:
        """The user's own, if there is one."""
        assert self._loss is not None  # as the model returns it otherwise
        return self._loss(output, target)

    def collate(self, batches: list[Any]) -> list[Any]:
        """Inputs and targets, as the loop takes them: the first of the batches, as often as its
        gradients are accumulated.
        """
        return [UserBatch(batches[0], self._device, times=self.accumulate), Nested(())]

    def samples_in(self, batch: Any) -> int | None:
        """How many samples a step on this batch has; None where that is not known.

        Raises:
            ProfileError: there are none.
        """
        if callable(self._samples):
            try:
                samples: int | None = operator.index(self._samples(batch))
            except Exception as error:
                raise ProfileError(
                    "samples: for a batch it raised or returned no whole number: "
                    f"{in_one_line(error)}"
                ) from error
        else:
            samples = samples_of(batch) if self._samples is None else self._samples
        if samples == 0:
            raise ProfileError("batch: it has no samples; expected one or more")
        return None if samples is None else samples * self.accumulate

    def training_step(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss of a batch, a scalar.

        Raises:
            ProfileError: the loss cannot be computed from such a batch, or is no scalar.
        """
        name = type(model).__name__
        self.part = "model"
        if self._loss is None:
            if isinstance(batch, (tuple, list)) and not _takes(model, batch):
                raise ProfileError(
                    f"loss: none was given, and {name} does not take the {len(batch)} parts of "
                    "the batch; give loss= for a pair (inputs, target)"
                )
            found = _own_loss(_called(model, batch))
            if found is None:
                raise ProfileError(f"loss: {name} returned none; give loss=, or return {_LOSSES}")
            return _checked(found, or_else=", or give loss=")
        if isinstance(batch, Mapping):
            output, target = _called(model, batch), batch
        elif isinstance(batch, (tuple, list)) and len(batch) == 2:
            output, target = _called(model, batch[0]), batch[1]
        else:
            shown = (
                f"{len(batch)} parts"
                if isinstance(batch, (tuple, list))
                else f"a {type(batch).__name__}"
            )
            raise ProfileError(
                f"batch: it is {shown}; with loss= it must be a pair (inputs, target) or a mapping"
            )
        self.part = "loss"
        return _checked(self.loss(output, target))


class UserBatch(Nested):
    """A batch of the user's, of whatever kind, which is copied and trained on `times` times.

    Its copy on the device has also what is no tensor but can be moved.
    """

    def __init__(self, parts: Any, device: torch.device, *, times: int = 1) -> None:
        super().__init__(parts)
        self._device, self._times = device, times

    def __len__(self) -> int:
        return self._times

    def like(self, parts: Any) -> "UserBatch":
        """The same with other parts."""
        return UserBatch(parts, self._device, times=self._times)

    def to(self, *_: Any, **__: Any) -> "UserBatch":
        """On the device; one of several copies is made where it is trained on."""
        if self._times > 1:
            return self
        return self.like(on_device(self.parts, self._device))

    def contiguous(self, *, memory_format: torch.memory_format) -> "UserBatch":
        """With images in this format; without another one than the usual left as it is."""
        if memory_format == torch.contiguous_format:
            return self
        return self.like(
            mapped(
                lambda each: (
                    each.contiguous(memory_format=memory_format) if each.dim() == IMAGES else each
                ),
                self.parts,
            )
        )

    def tensor_split(self, count: int) -> Iterator[Nested]:
        """A copy of the batch, as many times."""
        return (UserBatch(self.parts, self._device).to() for _ in range(count))


class CalledStep:
    """A callable of the user's own that trains one step; how many samples are in one, only it
    knows, unless they are given.

    Attributes:
        samples: Trained on so far; None where only the step knows.
        loading: What gives batches; None where there is no loader.
        part: What is at work, for the error where it raises; one of EXPECTED.
    """

    loading: Loading | None = None
    part = "step"

    def __init__(self, step: Callable[[], object], *, samples: int | None = None) -> None:
        self._step, self._in_step = step, samples
        self.samples: int | None = None if samples is None else 0

    def take(self, *, phase: Phase) -> Any:
        """It takes its batches itself."""
        return ()

    def once(self, batch: Any, *, phase: Phase) -> object:
        """Call it; what it returns is taken for the loss if it is a tensor with one number."""
        if self.samples is not None and self._in_step is not None:
            self.samples += self._in_step
        return self._step()


class TrainingStep:
    """Steps of what `build_training` built, on a loader's batches, or again and again on one."""

    def __init__(
        self, training: Training, *, batch: Any = None, loading: Loading | None = None
    ) -> None:
        self.training, self._batch, self.loading = training, batch, loading
        workload = training.workload
        self._user: Any = workload if isinstance(workload, BringsBatches) else None
        self._phase, self._steps = "", 0
        self.samples: int | None = 0
        try:
            prepare(training)
        except Exception as error:
            if not training.captured:
                raise
            first: BaseException = error  # the last one says little
            while first.__context__ is not None:
                first = first.__context__
            raise ProfileError(
                f"graphs: the step cannot be captured: {in_one_line(first)}"
            ) from error

    @property
    def part(self) -> str:
        """In the forward pass the user's workload says which."""
        if self._phase == "forward":
            return self._user.part if self._user is not None else "model"
        return {"": "step", "data": "batch"}.get(self._phase, self._phase)

    def take(self, *, phase: Phase) -> Any:
        """The next batch, whose samples are counted."""
        with phase("data"):
            batch = self.loading.take(phase=phase) if self.loading is not None else self._batch
        samples = len(batch[0]) if self._user is None else self._user.samples_in(batch)
        # One batch whose samples are not known leaves the sum unknown.
        is_known = self.samples is not None and samples is not None
        self.samples = self.samples + samples if is_known else None  # type: ignore[operator]
        return batch if self._user is None else self._user.collate([batch])

    def once(self, batch: Any, *, phase: Phase) -> Tensor:
        """Train one step and return its loss, which stays on the device."""

        def noted(name: str) -> AbstractContextManager[object]:
            self._phase = name
            return phase(name)

        loss = train_step(self.training, batch, phase=noted)
        self._phase = ""  # where the device fails later, nothing says in which part
        self._steps += 1
        epoch = len(self.training.train_loader)  # of a user's own batches there is none
        if epoch and self._steps % epoch == 0:  # as a study waits at the end of an epoch
            synchronize(*self.training.devices)
        return loss


Step = CalledStep | TrainingStep
"""One step of training after another: `take` a batch, train `once` on it."""


def user_step(
    workload: UserWorkload,
    batch: Any,
    *,
    device: torch.device,
    loader: Iterable[Any] | None = None,
    precision: str = "fp32",
    options: Sequence[str] = (),
    seed: int = 0,
) -> TrainingStep:
    """Steps of a user's workload on the loader's batches, or else on the batch."""
    variant = Variant(
        workload="model",
        device=str(device),
        batch_size=workload.accumulate,
        accumulation=workload.accumulate,
        precision=precision,
        options=joined(options),
        epochs=1,
    )
    training = build_training(
        with_defaults(workload), variant, device=device, seed=seed, steps_per_epoch=None
    )
    loading = Loading(loader) if loader is not None else None
    return TrainingStep(training, batch=batch, loading=loading)


_SAY_NOTHING: Final = (type(None), int, float, complex, str, bytes)
"""Parts of a batch beside its tensors that hold no samples."""


def samples_of(batch: Any) -> int | None:
    """How many samples a batch has: the length that all its tensors have along their first axis.

    None where that is not known: in an object of another kind, such as a batch of graphs, or where
    lengths differ, such as a list of images. Tensors without an axis say nothing.
    """
    parts = [part for _, part in leaves(batch)]
    lengths = {len(each) for each in parts if isinstance(each, Tensor) and each.dim()}
    is_known = all(isinstance(each, (Tensor, *_SAY_NOTHING)) for each in parts)
    return lengths.pop() if is_known and len(lengths) == 1 else None


def _takes(model: nn.Module, parts: Sequence[Any]) -> bool:
    try:
        inspect.signature(model.forward).bind(*parts)
    except TypeError:
        return False
    return True


def _called(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


def _own_loss(output: Any) -> Any:
    """The loss in a model's output, None where there is none; a tuple's is its only scalar."""
    if isinstance(output, Mapping):
        losses = [*output.values()]
        if "loss" not in output and losses and all(map(_is_scalar, losses)):
            return sum(losses[1:], losses[0])  # as detectors return them
        return output.get("loss")
    if (found := getattr(output, "loss", None)) is not None:
        return found
    if isinstance(output, (tuple, list)):
        scalars = [*filter(_is_scalar, output)]
        return scalars[0] if len(scalars) == 1 else None
    return output


def _is_scalar(part: object) -> bool:
    return isinstance(part, Tensor) and part.numel() == 1


def _checked(loss: Any, *, or_else: str = "") -> Tensor:
    """The loss, which can be followed back.

    Raises:
        ProfileError: it is no scalar, or depends on no parameter.
    """
    if not isinstance(loss, Tensor):
        raise ProfileError(
            f"loss: it is a {type(loss).__name__}; expected a tensor with one number{or_else}"
        )
    if loss.numel() != 1:
        shape = tuple(loss.shape)
        raise ProfileError(
            f"loss: its shape is {shape}; expected one number, for instance its mean(){or_else}"
        )
    if not loss.requires_grad:
        raise ProfileError(
            "loss: it needs no gradients; expected one that depends on the model's parameters, "
            "without detach(), item() or torch.no_grad()"
        )
    return loss.reshape(())


def on_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors, and all else that has a method `to`, on the device; itself it is
    not changed.
    """
    return mapped(
        lambda tensor: tensor.to(
            device, non_blocking=device.type != "cpu"
        ),  # on the host it must arrive to be used
        batch,
        others=lambda part: copy.copy(part).to(device) if hasattr(part, "to") else part,
    )


def require_parts(
    model: Any, batch: object, *, loss: object, optimizer: object, loader: object
) -> None:
    """Check what was given for a model's step.

    Raises:
        ProfileError: a part is missing or of another kind.
    """
    if not isinstance(model, nn.Module):
        raise ProfileError(
            f"model: it is a {type(model).__name__}; expected a torch.nn.Module that is built"
        )
    if any(isinstance(each, UninitializedParameter) for each in model.parameters()):
        raise ProfileError(
            f"model: {type(model).__name__} has lazy parameters; call it once with a batch, then "
            "profile"
        )
    if any(each.is_meta for each in model.parameters()):
        raise ProfileError(
            f"model: {type(model).__name__} is on meta, where parameters have no values; expected "
            "one on a device, for instance after model.to_empty(device='cpu')"
        )
    if isinstance(loss, type) or not (loss is None or callable(loss)):
        raise ProfileError(f"loss: it is {loss!r}; expected a function, or a module that is built")
    if batch is None and loader is None:
        raise ProfileError("batch: none was given; expected a batch, or loader= for batches")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise ProfileError(
            f"optimizer: it is a {type(optimizer).__name__}; expected a torch.optim.Optimizer or "
            "None"
        )
    own = {id(each) for each in model.parameters()}
    if optimizer is not None and own.isdisjoint(
        id(each) for group in optimizer.param_groups for each in group["params"]
    ):
        raise ProfileError(
            f"optimizer: {type(optimizer).__name__} has no parameter of {type(model).__name__}; "
            "expected one that was built with model.parameters()"
        )
    if loader is not None and not isinstance(loader, Iterable):
        raise ProfileError(
            f"loader: it is a {type(loader).__name__}; expected an iterable of batches"
        )


def chosen_device(name: str | torch.device, model: nn.Module | None) -> torch.device:
    """The device of that name; of `auto` the model's accelerator, else the first of this machine,
    else the CPU.

    Raises:
        ProfileError: the model is on several devices, or the name is none.
        MachineError: there is no such device.
    """
    if not isinstance(name, str | torch.device):
        raise ProfileError(
            f"device: it is {name!r}; expected auto or PyTorch's name, such as cpu or cuda:1"
        )
    name = str(name)
    own = (
        {each.device for each in (*model.parameters(), *model.buffers())}
        if model is not None
        else set()
    )
    if len(own) > 1:
        raise ProfileError(
            f"model: it is on {', '.join(sorted(map(str, own)))}; expected one device, or give "
            "step="
        )
    accelerators = [each for each in own if each.type != "cpu"]
    present = torch.accelerator.current_accelerator(check_available=True)
    found = str(accelerators[0] if accelerators else present or "cpu") if name == "auto" else name
    if reason := why_not_present(found):
        raise MachineError(f"device: {reason}")
    device = torch.device(found)
    if device.type != "cpu" and ":" not in found:
        device = torch.device(device.type, torch.accelerator.current_device_index())
    return device
