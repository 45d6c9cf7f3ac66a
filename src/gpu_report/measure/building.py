"""What trains a variant, built from its workload: model, optimizer, batches and arithmetic, as its
options ask.
"""

import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adadelta, Adam, Adamax, AdamW, Optimizer, RAdam, RMSprop
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from gpu_report.measure.arithmetic import (
    ATTENTION_SWITCHES,
    Arithmetic,
    has_capability,
    multiply_in_fp8,
    set_up_arithmetic,
    unchanged_arithmetic,
)
from gpu_report.measure.batches import (
    Batch,
    Batches,
    Samples,
    ShuffledSampler,
    build_batches,
    example_batch,
    is_pinned,
)
from gpu_report.measure.cuda_graphs import CapturedSteps
from gpu_report.measure.custom_loop import CustomLoop
from gpu_report.measure.nested import Collate, Part, collation, in_fp32, sample_in_words, unwrapped
from gpu_report.measure.random_numbers import keep_random_numbers
from gpu_report.measure.stages import in_stages
from gpu_report.measure.world import ALONE, World
from gpu_report.study.catalogue import FIXED_BY_CUSTOM_LOOPS
from gpu_report.study.options import BUCKETS_MIB, OPTIONS, first_loss_scale, option_names
from gpu_report.study.study import Measurement
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import (
    BringsBatches,
    BringsLoops,
    ChoosesAttention,
    NamesBlocks,
    StepsItself,
    TrainingWorkload,
    WorkloadError,
    load_workload,
)

if TYPE_CHECKING:
    from gpu_report.measure.pipeline import Pipeline

Loss = Callable[[Any, Any], Tensor]
"""The forward pass: from inputs and targets, each a `Part`, to the loss, a scalar."""

_COMPILER_OPTIONS: Final[dict[str, Any]] = {"combo_kernels": True}
"""Small kernels that do not wait for each other become one; a model has dozens that only convert
its weights.
"""


_START_AT_ZERO: Final = (Adadelta, Adam, AdamW, Adamax, RAdam, RMSprop, SGD)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model on its device with everything that trains it."""

    workload: TrainingWorkload
    variant: Variant
    device: torch.device
    arithmetic: Arithmetic
    model: nn.Module
    loss: Loss
    compiled_loss: Loss | None = None
    """The same, compiled for parts of full batches."""
    captured: CapturedSteps | None = None
    """Filled by `prepare`."""
    custom_loop: CustomLoop | None = None
    """The workload's, instead of our steps; built by `prepare`."""
    optimizer: Optimizer
    train_data: Samples
    collate: Collate | None = None
    """What makes a batch of samples; None where that is two tensors."""
    train_loader: Batches
    test_loader: Iterable[Batch]
    """Empty where there are no held-out samples."""
    non_blocking: bool = False
    """Whether the host goes on while a batch is copied; the eager baseline waits."""
    layout: torch.memory_format = torch.contiguous_format
    samples_per_epoch: int
    """Of all processes."""
    train_samples: int
    test_samples: int
    world: World = ALONE
    synchronize_gradients: Callable[[bool], None] | None = None
    """Says whether the next backward pass averages gradients over the processes; None where there
    is nothing to say.
    """
    pipeline: "Pipeline | None" = None
    """What the forward and the backward pass go through where each process has a stage of the
    model.
    """

    @property
    def samples_per_step(self) -> int:
        """Of this process."""
        return self.variant.batch_size // (self.world.size if self.variant.divides_batch else 1)

    @property
    def devices(self) -> list[torch.device]:
        """Those that this process uses."""
        return devices_of(self.variant, self.device)


def load_seeded(measurement: Measurement, *, seed: int) -> TrainingWorkload:
    """Load what is trained, after seeding all that a workload of one's own may draw from."""
    for seeded in (torch.manual_seed, np.random.seed, random.seed):
        seeded(seed)
    return load_workload(measurement.workload, size=measurement.variant.size, seed=seed)


def build_training(
    workload: TrainingWorkload,
    variant: Variant,
    *,
    device: torch.device,
    seed: int,
    steps_per_epoch: int | None,
    world: World = ALONE,
    pieces_of_stages: Sequence[int] = (),
) -> Training:
    """Build model, data and loaders; the same seed gives the same weights and order on every
    device.

    Without `steps_per_epoch` an epoch reads the training set once, and its last batch may be
    smaller. Without `pieces_of_stages` pieces that devices share are timed, to balance stages.

    Raises:
        WorkloadError: an epoch holds less than a batch, or an option does not fit the workload.
    """
    if isinstance(workload, BringsLoops):
        return _build_with_custom_loop(workload, variant, device=device, seed=seed)
    if isinstance(workload, BringsBatches):
        return _build_with_batches(workload, variant, device=device, seed=seed)
    _refuse_loops(workload, variant)
    options = option_names(variant.options)
    arithmetic = set_up_arithmetic(
        variant.precision, device, first_scale=first_loss_scale(variant.options)
    )
    torch.backends.cudnn.benchmark = "autotune" in options
    _choose_attention(workload, options)
    torch.manual_seed(seed)
    model = build_model(workload, variant, device=device)
    train_data, test_data = workload.train_data(), workload.test_data()
    train_samples = _samples_in(workload, "train_data", train_data)
    test_samples = 0 if test_data is None else _samples_in(workload, "test_data", test_data)
    collate = collation(workload, train_data)
    samples_per_epoch = steps_per_epoch * variant.batch_size if steps_per_epoch else train_samples
    _check_fit(workload, variant, train_data, collate, samples_per_epoch, world=world)
    readers = world if variant.divides_batch else ALONE
    samples_per_step = variant.batch_size // readers.size
    captured = (
        CapturedSteps(device, averages_gradients=world.is_launched) if "graphs" in options else None
    )
    layout = torch.channels_last if "channelslast" in options else torch.contiguous_format
    shared, synchronize_gradients = share_model(
        workload, model, variant, device=device, captured=captured
    )
    optimizer = build_optimizer(workload, variant, model)
    pipeline = None
    if not variant.divides_batch:
        # Of a pipeline each process uses its own device alone.
        devices = [device] * variant.devices if variant.has_ranks else devices_of(variant, device)
        part = _example_part(train_data, variant, device=device, layout=layout)
        shared = model = in_stages(
            workload,
            model,
            arithmetic,
            inputs=part,
            devices=devices,
            world=world,
            sizes=pieces_of_stages,
        )
        if variant.has_ranks:
            from gpu_report.measure.pipeline import Pipeline

            pipeline = Pipeline(
                model, workload, arithmetic, variant, part=part, layout=layout, world=world
            )
    loss = loss_of(workload, shared, arithmetic, is_nested=collate is not None)
    _seed_rank(seed, world, device=device, divides_batch=variant.divides_batch)
    sampler = ShuffledSampler(
        samples=train_samples, samples_per_epoch=samples_per_epoch, seed=seed, world=readers
    )
    # No more than a pipeline trains at once; its devices might need more memory to evaluate than to
    # train else.
    evaluated_at_once = samples_per_step // (variant.accumulation if pipeline else 1)
    return Training(
        workload=workload,
        variant=variant,
        device=device,
        arithmetic=arithmetic,
        model=model,
        loss=loss,
        compiled_loss=_compiled(loss, device) if "compile" in options else None,
        captured=captured,
        optimizer=optimizer,
        train_data=train_data,
        collate=collate,
        train_loader=build_batches(
            train_data,
            sampler,
            variant,
            batch_size=samples_per_step,
            device=device,
            layout=layout,
            seed=seed + readers.rank,
            collate=collate,
        ),
        test_loader=DataLoader(test_data, batch_size=evaluated_at_once, collate_fn=collate)
        if test_data is not None
        else [],
        non_blocking=is_pinned(variant),
        layout=layout,
        samples_per_epoch=samples_per_epoch,
        train_samples=train_samples,
        test_samples=test_samples,
        world=world,
        synchronize_gradients=synchronize_gradients,
        pipeline=pipeline,
    )


def _choose_attention(workload: TrainingWorkload, options: Sequence[str]) -> None:
    """Allow the attention kernel that the options name, or the workload's for its eager baseline,
    alone in this process; without either PyTorch chooses among those that are allowed.
    """
    of_eager = {workload.eager_attention} if isinstance(workload, ChoosesAttention) else set()
    asked = set(ATTENTION_SWITCHES).intersection(options) or of_eager
    for name, (allow, _) in ATTENTION_SWITCHES.items() if asked else ():
        allow(name in asked)


def _example_part(
    data: Samples, variant: Variant, *, device: torch.device, layout: torch.memory_format
) -> Tensor:
    """Inputs of one of the parts of a batch, whose gradients are accumulated."""
    with keep_random_numbers(device):
        inputs, _ = example_batch(data, variant.batch_size // variant.accumulation)
    part: Tensor = inputs.to(device).contiguous(memory_format=layout)
    return part


def _refuse_loops(workload: TrainingWorkload, variant: Variant) -> None:
    loop = next((name for name in option_names(variant.options) if OPTIONS[name].is_loop), None)
    if loop is not None:
        raise WorkloadError(
            f"options: {loop} is a custom training loop, and {type(workload).__name__} has none; "
            "leave it out"
        )


def _seed_rank(seed: int, world: World, *, device: torch.device, divides_batch: bool) -> None:
    """What is drawn from here on, as by dropout, is each rank's own; the weights are those of rank
    0.
    """
    if world.rank and divides_batch:
        torch.manual_seed(seed + world.rank * 1_000_003)
    elif world.rank and device.type != "cpu":
        # Data sets draw alike in all ranks of a pipeline, on the host; its stages have dropout of
        # their own.
        torch.get_device_module(device).manual_seed(seed + world.rank * 1_000_003)


def _check_fit(
    workload: TrainingWorkload,
    variant: Variant,
    train_data: Samples,
    collate: Collate | None,
    samples_per_epoch: int,
    *,
    world: World,
) -> None:
    """Refuse an epoch that holds less than a batch or unequal shares, and data that does not fit
    the options.

    Raises:
        WorkloadError: says what does not fit.
    """
    if variant.batch_size > samples_per_epoch:
        raise WorkloadError(
            f"{variant.slug}: a batch of {variant.batch_size} is more than the "
            f"{samples_per_epoch} samples of the training set, so its numbers would be those of a "
            f"batch of {samples_per_epoch}; take a smaller batch_size or more "
            "training samples, or give steps_per_epoch"
        )
    if collate is not None and not variant.divides_batch:
        raise WorkloadError(
            "parallelism: split and pipeline need samples of two tensors, (input, target), and "
            f"their loss; {type(workload).__name__} has {sample_in_words(train_data)} and trains "
            "otherwise; leave them out"
        )
    if "channelslast" in option_names(variant.options):
        check_images(workload, train_data, collate)
    if world.is_launched and samples_per_epoch % variant.batch_size:
        raise WorkloadError(
            f"{variant.slug}: the last batch of an epoch of {samples_per_epoch} samples would be "
            f"smaller than {variant.batch_size}, and not equally shared; give steps_per_epoch, or "
            "a batch_size that divides them"
        )


def _build_with_batches(
    workload: BringsBatches, variant: Variant, *, device: torch.device, seed: int
) -> Training:
    """What a user trains from Python; what measures it takes the batches."""
    if workload.keeps_settings:
        arithmetic = unchanged_arithmetic(device)
    else:
        arithmetic = set_up_arithmetic(variant.precision, device)
        torch.manual_seed(seed)
    options = option_names(variant.options)
    model = build_model(workload, variant, device=device).train()
    loss = loss_of(workload, model, arithmetic, is_nested=True)
    return Training(
        workload=workload,
        variant=variant,
        device=device,
        arithmetic=arithmetic,
        model=model,
        loss=loss,
        compiled_loss=_compiled(loss, device) if "compile" in options else None,
        captured=CapturedSteps(device) if "graphs" in options else None,
        optimizer=build_optimizer(workload, variant, model),
        train_data=workload.train_data(),
        collate=workload.collate,
        train_loader=[],
        test_loader=[],
        layout=torch.channels_last if "channelslast" in options else torch.contiguous_format,
        samples_per_epoch=variant.batch_size,
        train_samples=variant.batch_size,
        test_samples=0,
    )


def _build_with_custom_loop(
    workload: BringsLoops, variant: Variant, *, device: torch.device, seed: int
) -> Training:
    """The batch is the whole training set; it is in the device's memory with the held-out set.

    An epoch has the variant's own number of steps in the profiled run too, since a loop may do them
    all at once.

    Raises:
        WorkloadError: the variant asks for what such a loop has no room for.
    """
    for name, fixed in FIXED_BY_CUSTOM_LOOPS.items():
        if getattr(variant, name) != fixed:
            raise WorkloadError(
                f"{variant.slug}: {type(workload).__name__} trains by a custom loop, on the whole "
                f"batch at once; leave {name} at {fixed}"
            )
    arithmetic = set_up_arithmetic(variant.precision, device)
    torch.manual_seed(seed)
    model = workload.build_model().to(device)
    steps = variant.steps_per_epoch or 1
    inputs, targets = (part.to(device) for part in workload.draw(variant.batch_size, "train"))
    held_out = [part.to(device) for part in workload.draw(workload.held_out_samples, "test")]
    build = partial(
        workload.build_loop, model, (inputs, targets), options=variant.options, steps=steps
    )
    return Training(
        workload=workload,
        variant=variant,
        device=device,
        arithmetic=arithmetic,
        model=model,
        loss=loss_of(workload, model, arithmetic, is_nested=False),
        custom_loop=CustomLoop(lambda phase: build(phase=phase), steps=steps, device=device),
        optimizer=workload.build_optimizer(model),
        train_data=cast("Samples", TensorDataset(inputs, targets)),
        train_loader=[[inputs, targets]] * steps,
        test_loader=[held_out],
        samples_per_epoch=steps * variant.batch_size,
        train_samples=variant.batch_size,
        test_samples=workload.held_out_samples,
    )


def _samples_in(workload: TrainingWorkload, part: str, data: Samples) -> int:
    """How many samples a data set has.

    Raises:
        WorkloadError: none, or it does not say.
    """
    try:
        samples = len(data)  # type: ignore[arg-type]
    except TypeError:
        samples = 0
    if samples < 1:
        raise WorkloadError(
            f"{type(workload).__name__}: {part}() returned a {type(data).__name__} without "
            "samples; it must be a data set with a length and an item for each index"
        )
    return samples


def loss_of(
    workload: TrainingWorkload, model: nn.Module, arithmetic: Arithmetic, *, is_nested: bool
) -> Loss:
    """The loss is computed in fp32 whatever the precision of the model's arithmetic.

    A step of the workload's own computes its loss as torch.autocast does.
    """

    def step(batch: Part, _: Part) -> Tensor:
        with arithmetic.autocast():
            found = cast("StepsItself", workload).training_step(model, unwrapped(batch))
        check_loss(workload, found)
        return found

    def loss(inputs: Tensor, target: Tensor) -> Tensor:
        with arithmetic.autocast():
            output = model(inputs)
        try:  # costs nothing where the output is a tensor
            output = output.float()
        except AttributeError:
            output = in_fp32(output)
        return workload.loss(output, target)

    def nested_loss(inputs: Part, target: Part) -> Tensor:
        with arithmetic.autocast():
            output = model(unwrapped(inputs))
        return workload.loss(in_fp32(output), unwrapped(target))

    return step if isinstance(workload, StepsItself) else nested_loss if is_nested else loss


def check_loss(workload: TrainingWorkload, loss: Any) -> None:
    """Refuse what is no scalar.

    Raises:
        WorkloadError: says what it is.
    """
    if isinstance(loss, Tensor) and loss.dim() == 0 and loss.is_floating_point():
        return
    part = "training_step" if isinstance(workload, StepsItself) else "loss"
    found = (
        f"a tensor of shape {tuple(loss.shape)}, {loss.dtype}"
        if isinstance(loss, Tensor)
        else repr(loss)
    )
    raise WorkloadError(
        f"{type(workload).__name__}: {part} returned {found}; it must return a scalar tensor, the "
        "mean over the samples"
    )


def _compiled(loss: Loss, device: torch.device) -> Loss:
    return torch.compile(
        loss, dynamic=False, options=None if device.type == "cpu" else _COMPILER_OPTIONS
    )


def build_model(workload: TrainingWorkload, variant: Variant, *, device: torch.device) -> nn.Module:
    """The model on its device; channels-last and with checkpointed blocks where the options say so.

    Raises:
        WorkloadError: the workload builds no model, or names no blocks to checkpoint.
    """
    options = option_names(variant.options)
    built: object = workload.build_model()
    if not isinstance(built, nn.Module):
        raise WorkloadError(
            f"{type(workload).__name__}: build_model() returned a {type(built).__name__}; it must "
            "be a torch.nn.Module"
        )
    model = built.to(device)
    if "channelslast" in options:
        model = model.to(memory_format=torch.channels_last)
    if "fp8" in options:
        multiply_in_fp8(model)
    if "checkpoint" in options:
        if not isinstance(workload, NamesBlocks):
            raise WorkloadError(
                f"options: {type(workload).__name__} names no checkpointed_blocks(model), so "
                "checkpoint has nothing to do; add it to the class, or leave checkpoint out"
            )
        checkpoint_blocks(workload.checkpointed_blocks(model))
    return model


def share_model(
    workload: TrainingWorkload,
    model: nn.Module,
    variant: Variant,
    *,
    device: torch.device,
    captured: CapturedSteps | None,
) -> tuple[nn.Module, Callable[[bool], None] | None]:
    """The model to call, through which devices train that share a batch, and
    `Training.synchronize_gradients`.
    """
    if variant.strategy == "ddp":
        # What accumulates gradients must not belong to the default stream where steps are captured
        # on another.
        with torch.cuda.stream(captured.stream) if captured else nullcontext():
            replica = _replica(model, option_names(variant.options))
        return replica, lambda is_last: setattr(replica, "require_backward_grad_sync", is_last)
    if variant.strategy == "fsdp":
        mesh = init_device_mesh(device.type, (variant.devices,))
        for block in (
            workload.checkpointed_blocks(model) if isinstance(workload, NamesBlocks) else ()
        ):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)  # in place
        return model, cast("FSDPModule", model).set_requires_gradient_sync
    if variant.strategy == "dp":
        return nn.DataParallel(model, devices_of(variant, device)), None
    return model, None


def devices_of(variant: Variant, device: torch.device) -> list[torch.device]:
    """The devices that a process uses, of which this one is the first: all of the variant's if it
    is the only one.
    """
    if variant.has_ranks or variant.devices == 1:
        return [device]
    return [torch.device(device.type, index) for index in range(variant.devices)]


def _replica(model: nn.Module, options: Sequence[str]) -> DistributedDataParallel:
    """With the hooks and settings that its options ask for, else as PyTorch builds it."""
    # PyTorch 2.13 and later warn of every use of this argument.
    local: dict[str, Any] = (
        {"broadcast_buffers": False} if {"localbuffers", "nocomm"} & set(options) else {}
    )
    replica = DistributedDataParallel(
        model,
        **local,
        bucket_cap_mb=next((mib for name, mib in BUCKETS_MIB.items() if name in options), None),
        gradient_as_bucket_view="bucketview" in options,
        static_graph="staticgraph" in options,
        find_unused_parameters="unused" in options,
    )
    for name, hook in (("compressed", bf16_compress_hook), ("nocomm", noop_hook)):
        if name in options:
            replica.register_comm_hook(None, hook)
    return replica


def checkpoint_blocks(blocks: Iterable[nn.Module]) -> None:
    """Have each block compute its activations again in the backward pass; its running means count a
    batch once.
    """
    for block in blocks:
        norms = [part for part in block.modules() if isinstance(part, _BatchNorm)]
        contexts = partial(lambda norms: (nullcontext(), _without_running_means(norms)), norms)
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, context_fn=contexts)


@contextmanager
def _without_running_means(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Computing a block again would count its batch twice, and held-out samples would be normalized
    differently.
    """
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def why_not_applied(options: str, precision: str, device: torch.device) -> str | None:
    """Why this kind of device cannot train with these options in this precision; None if it can."""
    for name in option_names(options):
        option = OPTIONS[name]
        if option.cuda_only and device.type != "cuda":
            return (
                f"{option.title} (option {name}): only NVIDIA and AMD GPUs have it; this device "
                f"is {device.type}"
            )
        if option.package and find_spec(option.package) is None:
            return (
                f"{option.title} (option {name}) needs {option.package}, which is not installed; "
                f"pip install {option.package} brings it"
            )
        if device.type == "cpu":
            continue
        if option.precisions and precision not in option.precisions:
            return (
                f"{option.title} (option {name}) computes in {' and '.join(option.precisions)}; "
                f"this precision is {precision}"
            )
        if option.capability and not has_capability(device, option.capability):
            return (
                f"{option.title} (option {name}) needs an NVIDIA GPU of CUDA compute capability "
                f"{'.'.join(map(str, option.capability))} or higher"
            )
    return None


def check_images(workload: TrainingWorkload, data: Samples, collate: Collate | None) -> None:
    """Refuse inputs that have no channels to put last.

    Raises:
        WorkloadError: says which shape an input has.
    """
    with torch.random.fork_rng(devices=[]):
        inputs = example_batch(data, 1, collate)[0]
    if inputs.dim() != len("NCHW"):
        raise WorkloadError(
            "options: channelslast is for inputs that are images (channels, height, width); a "
            f"sample of {type(workload).__name__} has {sample_in_words(data)}; leave it out"
        )


def build_optimizer(workload: TrainingWorkload, variant: Variant, model: nn.Module) -> Optimizer:
    """The workload's optimizer, built once more with what the options need of it, before its first
    step.

    Raises:
        WorkloadError: the optimizer cannot be fused, or cannot be captured.
    """
    optimizer, options = workload.build_optimizer(model), option_names(variant.options)
    settings = inspect.signature(type(optimizer)).parameters
    changes: dict[str, bool] = {}
    if "fused" in options:
        if "fused" not in settings:
            raise WorkloadError(
                f"options: {type(optimizer).__name__} cannot be fused; leave fused out"
            )
        changes["fused"] = True
    if "graphs" in options:
        _check_capturable(optimizer)
        if "capturable" in settings:
            changes["capturable"] = True
    if not changes:
        return optimizer
    defaults = {name: value for name, value in optimizer.defaults.items() if name in settings}
    groups = [{**group, **changes} for group in optimizer.param_groups]
    again: Optimizer = type(optimizer)(groups, **{**defaults, **changes})
    return again


def _check_capturable(optimizer: Optimizer) -> None:
    """Refuse an optimizer whose state does not begin as zeros, since the warm-up of a capture
    cannot be undone then.
    """
    is_dampened = isinstance(optimizer, SGD) and optimizer.defaults["dampening"]
    if type(optimizer) not in _START_AT_ZERO or is_dampened:
        names = ", ".join(known.__name__ for known in _START_AT_ZERO)
        raise WorkloadError(
            f"options: graphs cannot capture {type(optimizer).__name__} without changing the "
            f"training; use one of {names} (SGD without dampening), or leave graphs out"
        )
