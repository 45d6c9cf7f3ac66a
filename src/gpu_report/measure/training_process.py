"""What happens inside one fresh process: find the device, build, train or profile, and send the
outcome.
"""

import importlib
import inspect
import math
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from gpu_report.errors import GpuReportError
from gpu_report.measure.arithmetic import why_not_computed
from gpu_report.measure.building import devices_of, load_seeded, why_not_applied
from gpu_report.measure.children import (
    be_killed_before_others,
    end_with_parent,
    take_interruptions,
)
from gpu_report.measure.cuda_graphs import state_tensors
from gpu_report.measure.environment import device_environment
from gpu_report.measure.failures import classify
from gpu_report.measure.launch import launch
from gpu_report.measure.memory import MemoryMeter
from gpu_report.measure.nested import sample_in_words
from gpu_report.measure.probe import why_not_present
from gpu_report.measure.profiling import profile_training
from gpu_report.measure.progress import ProgressReporter
from gpu_report.measure.ranks import gather_ranks, of_all_ranks
from gpu_report.measure.run import (
    Built,
    Message,
    Present,
    ProfiledRun,
    Run,
    Send,
    Started,
    Stopped,
    TimedRun,
)
from gpu_report.measure.stages import Stages
from gpu_report.measure.threads import training_threads
from gpu_report.measure.training import Training, build_training, prepare, train
from gpu_report.measure.world import ALONE, World, join, leave
from gpu_report.records.provenance import utc_now
from gpu_report.records.record import PreparationCache, Repetition, WorkloadFacts
from gpu_report.workloads.protocol import (
    CountsOperations,
    CountsTokens,
    DeclaresBetter,
    NotHereError,
    StepsItself,
    TrainingWorkload,
)


def carry_out(run: Run, pipe: Connection) -> None:
    """Do the run and send its messages; the last of them says how it ended.

    A mistake that a person can fix needs no traceback; the traceback of any other exception goes
    into the log.
    """
    end_with_parent()
    take_interruptions()
    be_killed_before_others()
    try:
        if run.measurement.variant.has_ranks:
            launch(run, pipe, carry_out_rank)
        else:
            train_or_profile(run, pipe.send)
    except GpuReportError as error:
        pipe.send(error)
    except BaseException as error:
        pipe.send(classify(error))
        raise


def carry_out_rank(run: Run, pipe: Connection) -> None:
    """The same as one of several processes; the first of each host speaks for all, the others say
    what went wrong.

    One that does not finish ends with an error, which lets torchrun's agent end the others.
    """
    end_with_parent()
    be_killed_before_others()
    pipe.send(Present(rank=int(os.environ["RANK"]), pid=os.getpid()))
    stopped: list[Message] = []

    def send(message: Message) -> None:
        if isinstance(message, Stopped):
            stopped.append(message)
        if os.environ["LOCAL_RANK"] == "0" or stopped:
            pipe.send(message)

    try:
        train_or_profile(run, send)
    except BaseException as error:
        pipe.send(error if isinstance(error, GpuReportError) else classify(error))
        raise
    if stopped:
        sys.exit(1)


def train_or_profile(run: Run, send: Send) -> None:
    """Do the run in this process and send its messages.

    Raises:
        Exception: any error of the workload.
    """
    variant = run.measurement.variant
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if variant.has_ranks else variant.devices
    device = torch.device(variant.device)
    if variant.has_ranks and device.type != "cpu":
        device = torch.device(device.type, int(os.environ["LOCAL_RANK"]))
    missing = (
        why_not_present(
            variant.device
            if here == 1 or variant.device == "cpu"
            else f"{variant.device}:{here - 1}"
        )
        or why_not_computed(variant.precision, device)
        or why_not_applied(variant.options, variant.precision, device)
    )
    if missing:
        send(Stopped(status="skipped", reason=missing))
        return
    torch.set_num_threads(run.threads)
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index or 0)
    # The compiler's caches are the variant's own, so that its first process compiles everything.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(run.cache_folder)
    os.environ["TRITON_CACHE_DIR"] = str(run.cache_folder / "triton")
    if "compile" in variant.options:
        _keep_headers_in(run.cache_folder)
    world = (
        join(device, expected=variant.devices, patience_s=run.patience_s)
        if variant.has_ranks
        else ALONE
    )
    try:
        if run.is_profiled:
            _profile(run, device, send, world)
        else:
            _time(run, device, send, world)
    except NotHereError as reason:
        send(Stopped(status="skipped", reason=str(reason)))
    leave(world)


def _keep_headers_in(folder: Path) -> None:
    """The compiler precompiles C++ headers below the temporary folder that its import finds, which
    other variants have, too.
    """
    before, tempfile.tempdir = tempfile.gettempdir(), str(folder)
    importlib.import_module("torch._inductor.codecache")
    tempfile.tempdir = before


def _time(run: Run, device: torch.device, send: Send, world: World) -> None:
    send(
        Started(
            environment=device_environment(device),
            device_uuid=str(torch.cuda.get_device_properties(device).uuid)
            if device.type == "cuda"
            else "",
        )
    )
    memory = MemoryMeter(*devices_of(run.measurement.variant, device))
    memory.reset()
    memory_baseline_mib = memory.peak_mib()
    started_at, started = utc_now(), time.perf_counter()
    training = _build(run, device, world)
    build_time_s = time.perf_counter() - started
    if run.index == run.first_index:
        send(Built(facts=_describe(training)))

    phase = torch.cuda.nvtx.range if run.has_nvtx_ranges else nullcontext
    preparation_time_s = prepare(training, phase=phase)
    reporter = ProgressReporter(send, run, steps=len(training.train_loader), pids=world.pids)
    trained = train(
        training,
        epochs=run.epochs,
        protocol=run.measurement.protocol,
        on_step=reporter.on_step,
        before_epoch=reporter.before_epoch,
        phase=phase,
    )
    memory_peak_mib = memory.peak_mib()
    # What the processes exchange from here on is not timed.
    load = reporter.load(first_epoch=trained.settled.warm_up_epochs)
    ranks = (
        gather_ranks(training, trained, memory, agent=run.hosts.index) if world.is_launched else []
    )
    if ranks:
        trained = of_all_ranks(trained, ranks, divide_batch=training.variant.divides_batch)
    cache: PreparationCache = "empty" if run.index == run.first_index else "filled"
    repetition = Repetition(
        index=run.index,
        seed=run.seed,
        started_at=started_at,
        build_time_s=build_time_s,
        preparation_time_s=preparation_time_s,
        preparation_cache=cache if preparation_time_s else "none",
        training_wall_s=trained.wall_s,
        epochs=trained.epochs,
        extra_epochs=trained.extra_epochs,
        warm_up_epochs=trained.settled.warm_up_epochs,
        settled=trained.settled.settled,
        memory_peak_mib=max([memory_peak_mib, *(rank.memory_peak_mib for rank in ranks)]),
        memory_kind=memory.kind,
        memory_baseline_mib=memory_baseline_mib,
        load=load,
        telemetry=None,
        ranks=ranks,
        optimizer_dtypes=sorted(
            {str(each.dtype).removeprefix("torch.") for each in state_tensors(training.optimizer)}
        ),
        **(training.custom_loop.outcome(training.model) if training.custom_loop else {}),
    )
    send(TimedRun(repetition=repetition, epoch_windows_s=trained.epoch_windows_s))


def _profile(run: Run, device: torch.device, send: Send, world: World) -> None:
    training = _build(run, device, world)
    reporter = ProgressReporter(send, run, steps=len(training.train_loader), pids=world.pids)
    reporter.before_epoch(0)
    profile = profile_training(
        training,
        steps=run.profile_steps,
        timed_step_ms=run.timed_step_ms,
        trace_folder=run.trace_folder,
        rich_trace_folder=run.rich_trace_folder,
        memory_folder=run.memory_folder,
        run_id=run.id,
        on_step=reporter.on_step,
    )
    send(ProfiledRun(profile=profile))


def _build(run: Run, device: torch.device, world: World) -> Training:
    variant = run.measurement.variant
    workload = load_seeded(run.measurement, seed=run.seed)
    # Samples are drawn before anything is timed, so every core may help.
    torch.set_num_threads(training_threads(sharing=world.size // world.agents))
    training = build_training(
        workload,
        variant,
        device=device,
        seed=run.seed,
        steps_per_epoch=run.steps_per_epoch,
        world=world,
        pieces_of_stages=run.pieces_of_stages,
    )
    torch.set_num_threads(run.threads)
    return training


def _describe(training: Training) -> WorkloadFacts:
    """What the workload says of itself; what it leaves out is read from its code, a sample and the
    optimizer.
    """
    workload, name = training.workload, type(training.workload).__name__
    flops, formula = (
        workload.flops_per_token() if isinstance(workload, CountsOperations) else (None, "")
    )
    return WorkloadFacts(
        title=workload.title or name,
        parameters=sum(
            parameter.numel()
            for parameter in training.model.parameters()
            if parameter.requires_grad
        ),
        train_samples=training.train_samples,
        test_samples=training.test_samples,
        steps_per_full_epoch=math.ceil(training.train_samples / training.variant.batch_size),
        sample_description=workload.sample_description or sample_in_words(training.train_data),
        data_description=workload.data_description
        or _first_paragraph(workload)
        or f"The data set of {name}.",
        quality_name=workload.quality_name,
        quality_chance=workload.chance(),
        quality_better=workload.quality_better
        if isinstance(workload, DeclaresBetter)
        else "higher",
        optimizer=workload.optimizer_name or _in_words(training.optimizer),
        loss=workload.loss_name
        or f"{name}.{'training_step' if isinstance(workload, StepsItself) else 'loss'}",
        source_file=type(workload).__module__,
        begins_anew=training.custom_loop is not None,
        tokens_per_sample=workload.tokens_per_sample
        if isinstance(workload, CountsTokens)
        else None,
        flops_per_token=flops,
        flops_formula=formula,
        pieces_of_stages=training.model.sizes if isinstance(training.model, Stages) else [],
    )


def _first_paragraph(workload: TrainingWorkload) -> str:
    """Of the docstring that the class was written with; a dataclass makes one of its fields."""
    found = inspect.getdoc(type(workload)) or ""
    return (
        ""
        if found.startswith(f"{type(workload).__name__}(")
        else " ".join(found.partition("\n\n")[0].split())
    )


def _in_words(optimizer: torch.optim.Optimizer) -> str:
    rate = optimizer.defaults.get("lr")
    return type(optimizer).__name__ + ("" if rate is None else f", learning rate {float(rate):g}")
