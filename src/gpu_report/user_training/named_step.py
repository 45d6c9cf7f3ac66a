"""Measuring one of our own workloads by its name in this process: the study's model, loader and
step, within seconds.

name -> a study of one configuration, checked as any other -> build_training -> TrainingStep ->
StepRun
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import torch

from gpu_report.errors import ConfigError, MachineError, ProfileError
from gpu_report.measure.arithmetic import why_not_computed
from gpu_report.measure.building import load_seeded, why_not_applied
from gpu_report.measure.threads import training_threads
from gpu_report.measure.training import build_training
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS, WITH_PLAIN_STEPS
from gpu_report.study.machine import device_name
from gpu_report.study.options import Optimization
from gpu_report.study.single import BuiltInOptions, single_study
from gpu_report.study.study import Measurement
from gpu_report.user_training.restoring import left_as_found
from gpu_report.user_training.run import Measured, StepRun, deadline
from gpu_report.user_training.workload import Loading, TrainingStep, chosen_device

_STEPS_PER_EPOCH: Final = 8


def measure_built_in(
    name: str, options: BuiltInOptions, *, device: str, began_s: float, seconds: float
) -> Measured:
    """Measure what `gpu_report.profile` is given by name; this process is left as it was found.

    Raises:
        ConfigError: there is no such workload, or it has no such data set, size or precision.
        ProfileError: the batch size is missing, or several configurations are asked for.
        MachineError: there is no such device, or it cannot compute in the precision.
        WorkloadError: the data set holds less than a batch, or cannot be read.
    """
    deadline_s = deadline(began_s, seconds)
    one_epoch = replace(options, epochs=1) if options.epochs is None else options
    measurement, on = _measurement(name, one_epoch, device=device)
    with left_as_found([], optimizer=None, loader=None, device=on):
        step = _built(measurement, on)
        run = StepRun(
            step,
            device=on,
            may_be_on_host=False,
            loader_workers=measurement.variant.workers,
            deadline_s=deadline_s,
            most_steps=math.inf
            if options.epochs is None
            else options.epochs * len(step.training.train_loader),
        )
        return replace(run.measure(), loader_workers=measurement.variant.workers)


def built_in_step(
    name: str,
    *,
    samples: int | None,
    size: str | None,
    precision: str,
    device: str,
    optimization: Optimization,
) -> TrainingStep:
    """The step of a built-in workload, which may have more samples than its training set.

    With accumulation they are those of one of the batches whose gradients it adds up.

    Raises:
        ConfigError, ProfileError, MachineError, WorkloadError: as `measure_built_in`.
    """
    options = BuiltInOptions(
        batch_size=samples and samples * optimization.accumulation,
        size=size,
        precision=precision,
        epochs=1,
    )
    row = {"optimization": optimization.name, "steps_per_epoch": _STEPS_PER_EPOCH}
    measurement, on = _measurement(name, options, device=device, row=row)
    return _built(measurement, on)


def require_built_in(name: str) -> None:
    """Check the name of a workload whose steps are plain.

    Raises:
        ConfigError: there is none of it.
    """
    if name in WITH_PLAIN_STEPS:
        return
    why = (
        "trains on files or by loops of its own: measure it with gpu-report run"
        if name in BUILT_IN_WORKLOADS
        else "is unknown"
    )
    raise ConfigError(
        f"model: {name!r} {why}; use one of {', '.join(WITH_PLAIN_STEPS)}, or a model of your own"
    )


def _measurement(
    name: str,
    options: BuiltInOptions,
    *,
    device: str,
    row: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Measurement, torch.device]:
    require_built_in(name)
    if options.batch_size is None:
        raise ProfileError(
            f"batch_size: none was given; expected the samples of a step of {name}, for instance 64"
        )
    given = {**vars(options), "device": None if device == "auto" else device, **row}
    dataset = given.pop("dataset")
    found = torch.accelerator.current_accelerator(check_available=True)
    accelerators = range(torch.accelerator.device_count()) if found else ()
    here = ["cpu", *(device_name(found.type, index) for index in accelerators if found)]
    study = single_study(name, given, devices=here, dataset=dataset)
    if len(study.variants) != 1:
        raise ProfileError(
            f"model: {len(study.variants)} configurations of {name} are asked for; expected one"
        )
    measurement = study.measurement(study.variants[0].slug)
    variant = measurement.variant
    on, _ = chosen_device(variant.device, None)
    if reason := why_not_computed(variant.precision, on):
        raise MachineError(f"precision: {reason}")
    if why := why_not_applied(variant.options, variant.precision, on):
        raise MachineError(f"options: {why}")
    return measurement, on


def _built(measurement: Measurement, device: torch.device) -> TrainingStep:
    variant = measurement.variant
    workload = load_seeded(measurement, seed=variant.seed)
    training = build_training(
        workload, variant, device=device, seed=variant.seed, steps_per_epoch=variant.steps_per_epoch
    )
    torch.set_num_threads(training_threads(variant.device_type))
    training.model.train()
    return TrainingStep(training, loading=Loading(training.train_loader))
