"""A training of the user's own in a fresh process, which builds the model itself; whatever happens
there is a result.

OwnTraining -> process: limit its memory -> build -> train and time -> OwnResult, or Stopped with
the reason
            -> or in this process, on a copy of a model that is built: the same without the limit

The process has ended when the result is here, so none of its memory, on the host or on a GPU, is
left.
"""

import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import active_children, current_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeGuard

import psutil
import torch
from torch import nn
from torch.optim import Optimizer

from gpu_report.errors import GpuReportError, MachineError, ProfileError
from gpu_report.glossary import PRECISIONS
from gpu_report.measure.arithmetic import why_not_computed
from gpu_report.measure.building import checkpoint_blocks, why_not_applied
from gpu_report.measure.children import be_killed_before_others, end_with_parent, take_interruptions
from gpu_report.measure.failures import (
    available_mib,
    classify,
    read_oom_kills,
    unless_memory_ran_out,
)
from gpu_report.measure.memory import MemoryMeter
from gpu_report.measure.nested import mapped, tensors_of
from gpu_report.measure.processes import (
    FreshProcess,
    MeasurementInterruptedError,
    ending_stopped,
    server_pid,
)
from gpu_report.measure.run import PATIENCE_S, Stopped
from gpu_report.study.options import Optimization, joined
from gpu_report.user_training.arguments import require_whole
from gpu_report.user_training.blocks import Measured
from gpu_report.user_training.ranks import is_distributed
from gpu_report.user_training.restoring import left_as_found, modules_within
from gpu_report.user_training.run import StepRun, built_in_step
from gpu_report.user_training.workload import (
    IMAGES,
    Step,
    TrainingStep,
    UserWorkload,
    chosen_device,
    named_function,
    require_parts,
    trained_parameters,
    user_step,
)
from gpu_report.workloads.protocol import WorkloadError

Factory = Callable[..., Any] | str
"""A function of a module, or its name as `package.module:function`."""

_NAME: Final = "gpu-report probe"
_CALLED_ANEW: Final = 97
"""The exit status of a fresh process whose import of the user's script makes the call that started
it.
"""
_MIB: Final = 2**20
_FAR_OVER: Final = 2
_POLL_S: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class OwnTraining:
    """What a fresh process builds, and how it trains.

    `build` takes nothing, or is the name of a built-in workload, which has a `size` and brings the
    rest. `make_batch` takes `samples`, or nothing where that is None, and may be a batch itself;
    `optimizer` takes the parameters, `checkpoint` the model, whose blocks it names, `metric` the
    model after the `loss_steps`, in evaluation mode. `memory_limit_mib` is None for all that the
    device has, and never more; of the CPU that is `host_available_mib`, which is measured once for
    several processes; `margin` is the share of the limit that stays free. Before the timed steps
    come `loss_steps`, the last of which gives the loss that is reported; `seed` decides the
    weights. `is_profiled` asks for a trace of a few steps behind them. Where `seconds` are too few
    for three timed blocks, or for the trace, these may take `least_s`.
    """

    build: Factory
    make_batch: Any
    size: str | None = None
    samples: int | None = None
    loss: Factory | None = None
    optimizer: Factory | None = None
    checkpoint: Factory | None = None
    metric: Factory | None = None
    device: str = "auto"
    precision: str = "fp32"
    options: Sequence[str] = ()
    accumulate: int = 1
    memory_limit_mib: float | None = None
    host_available_mib: float = field(default_factory=available_mib)
    margin: float = 0.0
    seed: int = 0
    loss_steps: int = 0
    seconds: float = 5.0
    least_s: float = 0.0
    is_profiled: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ProfileError(
                f"precision: {self.precision!r} is unknown; use one of {', '.join(PRECISIONS)}"
            )
        require_whole(accumulate=self.accumulate)


@dataclass(frozen=True, kw_only=True)
class OwnResult:
    """A training that went well, with its limit of memory and the most that it took of that.

    On an accelerator both count what PyTorch's allocator reserves, which is more than the tensors
    have. `loss` and `metric` are those after the `loss_steps`, NaN without.
    """

    measured: Measured
    loss: float
    metric: float
    memory_limit_mib: float
    memory_taken_mib: float


@contextmanager
def own_server() -> Iterator[None]:
    """Fresh processes come from a server of their own, so that what an earlier one imported takes
    no memory in them.

    Afterwards this process has no server, which would hold some 400 MiB of imported PyTorch. One
    that still serves a process, such as a DataLoader worker, stays. A fresh process that comes here
    as it imports the user's script ends.
    """
    process = current_process()
    if process.name == _NAME and getattr(process, "_inheriting", False):
        os._exit(
            _CALLED_ANEW
        )  # no traceback of multiprocessing's: the one that started it says why
    _end_server()
    try:
        yield
    finally:
        _end_server()


def _end_server() -> None:
    """Where one is needed again, it starts anew."""
    # Its _stop() would wait for ever where a process that was forked meanwhile holds the pipe.
    pid = server_pid()
    if pid is not None and not active_children():
        os.kill(pid, signal.SIGKILL)
        os.waitid(
            os.P_PID, pid, os.WEXITED | os.WNOWAIT
        )  # multiprocessing looks for its end itself


def train_in_fresh_process(
    training: OwnTraining, *, patience_s: float = PATIENCE_S
) -> OwnResult | Stopped:
    """Train in a process of its own, which has ended when this returns; any failure of its own is a
    result, too.

    Raises:
        ProfileError: a function cannot be sent to another process or imported there, or importing
            the script calls this again.
        MeasurementInterruptedError: the process or its server was ended from outside.
    """
    try:
        pickled = pickle.dumps(training)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ProfileError(
            f"{error}; a fresh process cannot be given that: expected functions of a module, not "
            "a lambda or an inner function, or their names as module:function"
        ) from error
    script = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    if b"__main__" in pickled and not script.is_file():
        raise ProfileError(
            "a fresh process cannot import what a notebook, standard input or an interactive "
            "session defines: put these functions into a file and import them from there"
        )
    kills_before = read_oom_kills()
    with ending_stopped(_NAME, patience_s=patience_s):  # the server may be stopped before it forks
        fresh = FreshProcess(_carry_out, pickled, name=_NAME)
    with fresh as process:
        result: OwnResult | Stopped | None = next(process.messages(patience_s), None)
        if result is None and not process.is_silent:
            process.wait_for_end(within_s=1)
    if result is not None:
        return result
    if process.is_silent:
        return Stopped(status="failed", reason=f"no answer within {patience_s:g} s")
    if process.exit_status == _CALLED_ANEW:
        raise ProfileError(
            "each fresh process imports the script, which makes this call again; put the call "
            "under "
            '`if __name__ == "__main__":`'
        )
    ended = unless_memory_ran_out(process.end(), kills_before)
    if ended.interrupted_by:
        raise MeasurementInterruptedError(
            f"{_NAME}: {ended.reason}, from outside; run the same again"
        )
    if process.exit_status is not None and process.exit_status >= 0:
        hint = 'in a script of your own, call this under `if __name__ == "__main__":`'
        return replace(ended, reason=f"{ended.reason} and without a result; {hint}")
    return ended


def _carry_out(pickled: bytes, pipe: Connection) -> None:
    end_with_parent()
    train_and_send(partial(_unpickled, pickled), pipe.send)


def train_and_send(
    training_of: Callable[[], OwnTraining], send: Callable[[OwnResult | Stopped], None]
) -> None:
    """Train in this process, which was started for nothing else and has done nothing yet; the
    result is sent once.

    A process whose resident set exceeds the limit sends that and ends at once.
    """
    take_interruptions()
    be_killed_before_others()
    has_ended = threading.Event()
    result: OwnResult | Stopped
    try:
        training = training_of()
        if chosen_device(training.device, None).type == "cpu":
            watching = threading.Thread(
                target=_watch, args=(_host_limit_mib(training), send, has_ended), daemon=True
            )
            watching.start()
        result = _train(training)
    except BaseException as error:  # noqa: BLE001 -- whatever the user's functions raise: the reason is sent
        result = _stopped(error)
    has_ended.set()
    _allow_memory(None)
    send(result)


def _watch(limit_mib: float, send: Callable[[Stopped], None], has_ended: threading.Event) -> None:
    """End this process as soon as its resident set is over the limit, before it takes the machine's
    memory.
    """
    process = psutil.Process()
    while not has_ended.wait(_POLL_S):
        if process.memory_info().rss > limit_mib * _MIB:
            send(
                Stopped(
                    status="oom",
                    reason=f"the resident set exceeded the limit of {limit_mib:.0f} MiB",
                )
            )
            os._exit(1)


def _host_limit_mib(training: OwnTraining) -> float:
    limit_mib = min(training.memory_limit_mib or math.inf, training.host_available_mib)
    return limit_mib * (1 - training.margin)


def _unpickled(pickled: bytes) -> OwnTraining:
    try:
        training: OwnTraining = pickle.loads(pickled)
    except (AttributeError, ImportError) as error:  # of a notebook, for instance
        raise ProfileError(
            f"{error}; a fresh process must import the functions: put them into a module, a file "
            "of their own"
        ) from error
    return training


def _stopped(error: BaseException) -> Stopped:
    found = classify(error)
    if found.status == "oom" or not isinstance(error, GpuReportError):
        return found
    does_not_apply = isinstance(error, _NotHereError | WorkloadError)
    return Stopped(status="skipped" if does_not_apply else "failed", reason=str(error))


class _NotHereError(MachineError):
    """An option does not apply to this device or model."""


def train_in_this_process(training: OwnTraining) -> OwnResult | Stopped:
    """The same here, on what `build` returns; random numbers, settings and modules that the loss
    uses are restored afterwards.

    Raises:
        MachineError: there is no such device.
    """
    if "graphs" in training.options:
        # After a failed capture, PyTorch's allocator may assume that one is still running, and
        # abort the process later.
        return Stopped(
            status="skipped",
            reason="a failed graph capture can abort this process later; pass a function that "
            "builds the model",
        )
    if is_distributed():
        return Stopped(
            status="skipped",
            reason="a process group is running; pass a function that builds the model",
        )
    device = chosen_device(training.device, None)
    beside = modules_within(training.loss)
    try:
        with left_as_found((), optimizer=None, loader=None, device=device, beside=beside):
            return _train(replace(training, loss=deepcopy(training.loss)), limit_mib=math.nan)
    except Exception as error:  # noqa: BLE001 -- of the user's functions, whatever it is: the reason is the result
        return _stopped(error)


def _train(training: OwnTraining, *, limit_mib: float | None = None) -> OwnResult:
    """Build, train and time; without a limit given it is the training's, and enforced."""
    torch.manual_seed(training.seed)
    device = chosen_device(training.device, None)
    reason = why_not_computed(training.precision, device) or why_not_applied(
        joined(training.options), training.precision, device
    )
    if not reason and device.type == "cpu" and "pinned" in training.options:
        reason = "on the CPU no batch is copied"
    if reason:
        raise _NotHereError(reason)
    if limit_mib is None:
        limit_mib = _limit_memory(device, training)
    reported = quality = math.nan
    run = partial(
        StepRun,
        device=device,
        may_be_on_host=False,
        loader_workers=0,
        is_profiled=training.is_profiled,
    )
    step: Step
    if is_built_in(training.build):
        step = built_in_step(
            training.build,
            samples=training.samples,
            size=training.size,
            precision=training.precision,
            device=training.device,
            optimization=Optimization(
                accumulation=training.accumulate, options=joined(training.options)
            ),
        )
    else:
        step = _user_step(training, device)
        model = step.training.model
        reported = run(step, deadline_s=math.inf).loss_after(training.loss_steps)
        if training.metric is not None:
            model.eval()
            with torch.no_grad(), _named("computing the metric"):
                quality = float(_function(training.metric)(model))
            model.train()
    now_s = time.monotonic()
    measured = run(
        step, deadline_s=now_s + training.seconds, least_until_s=now_s + training.least_s
    ).measure()
    if training.samples is not None:
        measured = replace(
            measured, samples=training.samples * training.accumulate, block_samples=()
        )
    if measured.memory_kind == "resident set" and measured.memory_peak_mib > limit_mib:
        raise MemoryError(
            f"the peak of {measured.memory_peak_mib:.0f} MiB is over the limit of {limit_mib:.0f} "
            "MiB"
        )
    taken_mib = measured.memory_peak_mib
    if measured.memory_kind == "allocator":
        taken_mib = torch.accelerator.max_memory_reserved(device) / _MIB
    return OwnResult(
        measured=measured,
        loss=reported,
        metric=quality,
        memory_limit_mib=limit_mib,
        memory_taken_mib=taken_mib,
    )


def is_built_in(build: object) -> TypeGuard[str]:
    """Whether it names one of our workloads, and no function."""
    return isinstance(build, str) and ":" not in build


def _user_step(training: OwnTraining, device: torch.device) -> TrainingStep:
    build, loss, blocks_of = map(_function, (training.build, training.loss, training.checkpoint))
    optimizer_of = _function(training.optimizer)
    with _named("making a batch"):
        batch = _batch(training)

    def build_model() -> nn.Module:
        with _named("building the model"):
            model: nn.Module = build()
        require_parts(model, batch, loss=loss, optimizer=None, loader=None)
        if blocks_of is not None:
            with _named("naming the blocks to checkpoint"):
                named = blocks_of(model)
                blocks = list(named) if isinstance(named, Iterable) else [named]
                if not blocks or not all(isinstance(each, nn.Module) for each in blocks):
                    raise ProfileError(
                        "checkpoint: it named no blocks; expected a function that takes the model "
                        "and returns modules"
                    )
                checkpoint_blocks(blocks)
        return model

    def build_optimizer(model: nn.Module) -> Optimizer:
        with _named("making the optimizer"):
            optimizer = optimizer_of(trained_parameters(model))
        if not isinstance(optimizer, Optimizer):
            raise ProfileError(
                f"optimizer: it returned a {type(optimizer).__name__}; expected a function that "
                "takes the parameters and returns a torch.optim.Optimizer"
            )
        return optimizer

    batch = _prepared(batch, training.options)
    workload = UserWorkload(
        build_model,
        batch,
        loss=loss.to(device) if isinstance(loss, nn.Module) else loss,
        build_optimizer=None if optimizer_of is None else build_optimizer,
        device=device,
        accumulate=training.accumulate,
    )
    return user_step(
        workload,
        batch,
        device=device,
        precision=training.precision,
        options=training.options,
        seed=training.seed,
    )


@contextmanager
def _named(doing: str) -> Iterator[None]:
    """Turn what the user's function raises into a one-line ProfileError that says what it was
    called for.
    """
    try:
        yield
    except GpuReportError:
        raise
    except Exception as error:
        raise ProfileError(f"{doing} raised {classify(error).reason}") from error


def _batch(training: OwnTraining) -> Any:
    """One of its own, which a layer may change in place."""
    is_made = isinstance(training.make_batch, str) or callable(training.make_batch)
    make_batch: Any = _function(training.make_batch) if is_made else lambda: training.make_batch
    if training.samples is None:
        return mapped(
            lambda each: each.detach().clone().requires_grad_(each.requires_grad),
            make_batch(),
            others=deepcopy,
        )
    batch = make_batch(training.samples)
    shapes = [each.shape for each in tensors_of(batch) if not each.is_nested]
    if shapes and not any(training.samples in shape for shape in shapes):
        given = next((shape[0] for shape in shapes if shape), 1)
        raise ProfileError(f"make_batch: asked for {training.samples:,} samples, it gave {given:,}")
    return batch


def _function(name: Factory | None) -> Any:
    return named_function(name) if isinstance(name, str) else name


def _limit_memory(device: torch.device, training: OwnTraining) -> float:
    """Have PyTorch fail to allocate more than this, or than the device has, and return which it is,
    in MiB.

    On the CPU the limit is of the resident set, which the kernel does not limit: `_watch` does.
    What is far over fails at once, by the kernel's limit of private memory (RLIMIT_DATA); that one
    cannot be close, since PyTorch asks for workspaces of some hundred MiB that it hardly touches.
    An address space (RLIMIT_AS) holds whole libraries besides.
    """
    if device.type == "cpu":
        limit_mib = _host_limit_mib(training)
        now = psutil.Process().memory_info()
        left = int(limit_mib * _MIB) - now.rss
        if left <= 0:
            raise MemoryError(
                f"PyTorch alone takes {now.rss / _MIB:.0f} MiB of the {limit_mib:.0f} MiB allowed"
            )
        _allow_memory(getattr(now, "data", 0) + _FAR_OVER * left)
        return limit_mib
    torch.accelerator.set_device_index(device.index or 0)
    torch.zeros(1, device=device)
    meter = MemoryMeter(device)
    present_mib = meter.free_mib() + meter.in_use_mib()
    if training.memory_limit_mib is None and not training.margin:
        return present_mib
    limit_mib = min(training.memory_limit_mib or math.inf, present_mib) * (1 - training.margin)
    if meter.kind == "allocator":
        _limit_allocator(device, limit_mib)
    return limit_mib


def _limit_allocator(device: torch.device, limit_mib: float) -> None:
    """Limit what PyTorch's allocator reserves on an accelerator.

    Raises:
        _NotHereError: PyTorch has no such limit there.
    """
    limit_fraction = getattr(
        torch.get_device_module(device), "set_per_process_memory_fraction", None
    )
    if limit_fraction is None:
        raise _NotHereError(
            f"PyTorch cannot limit the memory of {device.type}; leave out the memory limit and the "
            "margin"
        )
    total_mib = torch.accelerator.get_memory_info(device)[1] / _MIB
    limit_fraction(min(limit_mib / total_mib, 1.0), device)


def _allow_memory(private_bytes: int | None) -> None:
    """Limit the private memory of this process; None for no limit."""
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(
            resource.RLIMIT_DATA, (hard if private_bytes is None else private_bytes, hard)
        )


def _prepared(batch: Any, options: Sequence[str]) -> Any:
    tensors = list(tensors_of(batch))
    if "channelslast" in options and not any(each.dim() == IMAGES for each in tensors):
        raise _NotHereError("no tensor of the batch has four dimensions, as images have")
    if "pinned" not in options:
        return batch
    if all(each.device.type != "cpu" for each in tensors):
        raise _NotHereError("the batch is on the device already")
    return mapped(lambda each: each.pin_memory() if each.device.type == "cpu" else each, batch)
