"""What happens inside one fresh process: look for the device, build, train or profile, and say how it went."""

import math
import os
import signal
import time
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Final

import torch

from gpu_report.errors import GpuReportError
from gpu_report.measure.arithmetic import why_not_computed
from gpu_report.measure.environment import device_environment
from gpu_report.measure.failures import classify
from gpu_report.measure.memory import memory_meter
from gpu_report.measure.messages import Built, ProfiledRun, Send, Started, Stopped, TimedRun
from gpu_report.measure.optimizations import why_not_applied
from gpu_report.measure.parent_watch import end_with_parent
from gpu_report.measure.probe import why_not_present
from gpu_report.measure.profiling import profile_training
from gpu_report.measure.progress import ProgressReporter
from gpu_report.measure.run import Run
from gpu_report.measure.threads import training_threads
from gpu_report.measure.training import Training, build_training, prepare, train
from gpu_report.provenance import utc_now
from gpu_report.records import PreparationCache, Repetition, WorkloadFacts
from gpu_report.study import Measurement
from gpu_report.workloads.protocol import NotHereError, load_workload

_OUT_OF_MEMORY_SCORE: Final = Path("/proc/self/oom_score_adj")


def carry_out(run: Run, pipe: Connection) -> None:
    """Do the run and send its messages; the last of them says how it ended."""
    end_with_parent()
    # Python would turn an interruption into an exception, and that would look like a failure of the workload.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _be_killed_before_others()
    with _EndReported(pipe.send):
        train_or_profile(run, pipe.send)


class _EndReported:
    """Sends what an exception means and lets it go on, so that the process ends with its traceback in the log.

    A mistake that a person can mend needs no traceback.
    """

    def __init__(self, send: Send) -> None:
        self._send = send

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, GpuReportError):
            self._send(error)
            return True
        if error is not None:
            self._send(classify(error))
        return False


def _be_killed_before_others() -> None:
    """When memory runs out, the kernel shall take the training, not the user's other programs; may not be allowed."""
    with suppress(OSError):
        if _OUT_OF_MEMORY_SCORE.exists():
            _OUT_OF_MEMORY_SCORE.write_text("500", "ascii")


def train_or_profile(run: Run, send: Send) -> None:
    """Do the run in this process and send what comes of it.

    Raises:
        Exception: whatever the workload raises.
    """
    variant = run.measurement.variant
    missing = (
        why_not_present(variant.device)
        or why_not_computed(variant.precision, torch.device(variant.device))
        or why_not_applied(variant.options, torch.device(variant.device))
    )
    if missing:
        send(Stopped(status="skipped", reason=missing))
        return
    torch.set_num_threads(run.threads)
    device = torch.device(variant.device)
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index or 0)
    _compile_into(run.cache_folder)
    try:
        if run.is_profiled:
            _profile(run, device, send)
        else:
            _time(run, device, send)
    except NotHereError as reason:
        send(Stopped(status="skipped", reason=str(reason)))


def _compile_into(cache_folder: Path) -> None:
    """Keep what the compiler makes in the variant's own folder, so that its first process compiles everything anew."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache_folder)
    os.environ["TRITON_CACHE_DIR"] = str(cache_folder / "triton")


def _device_uuid(device: torch.device) -> str:
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""


def _cache_state(run: Run, preparation_time_s: float) -> PreparationCache:
    if not preparation_time_s:
        return "none"
    return "empty" if run.index == 0 else "filled"


def _time(run: Run, device: torch.device, send: Send) -> None:
    send(Started(environment=device_environment(device), device_uuid=_device_uuid(device)))
    memory = memory_meter(device)
    memory.reset()
    memory_baseline_mib = memory.peak_mib()
    started_at, started = utc_now(), time.perf_counter()
    training = _build(run, device)
    build_time_s = time.perf_counter() - started
    if run.index == 0:
        send(Built(facts=_describe(training, run.measurement)))

    phase = torch.cuda.nvtx.range if run.has_nvtx_ranges else nullcontext
    preparation_time_s = prepare(training, phase=phase)
    reporter = _reporter(run, training, send)
    trained = train(
        training,
        epochs=run.epochs,
        protocol=run.measurement.protocol,
        on_step=reporter.on_step,
        before_epoch=reporter.before_epoch,
        phase=phase,
    )
    memory_peak_mib = memory.peak_mib()
    own_loop = training.own_loop
    repetition = Repetition(
        index=run.index,
        seed=run.seed,
        started_at=started_at,
        build_time_s=build_time_s,
        preparation_time_s=preparation_time_s,
        preparation_cache=_cache_state(run, preparation_time_s),
        training_wall_s=trained.wall_s,
        epochs=trained.epochs,
        extra_epochs=trained.extra_epochs,
        warm_up_epochs=trained.settled.warm_up_epochs,
        settled=trained.settled.settled,
        memory_peak_mib=memory_peak_mib,
        memory_kind=memory.kind,
        memory_baseline_mib=memory_baseline_mib,
        load=reporter.load(first_epoch=trained.settled.warm_up_epochs),
        telemetry=None,
        learnt=own_loop.fetch_learnt() if own_loop else {},
        reference_error=own_loop.find_error() if own_loop else None,
    )
    send(TimedRun(repetition=repetition, epoch_windows_s=trained.epoch_windows_s))


def _profile(run: Run, device: torch.device, send: Send) -> None:
    training = _build(run, device)
    reporter = _reporter(run, training, send)
    reporter.before_epoch(0)
    profile = profile_training(
        training,
        steps=run.measurement.protocol.profile_steps,
        timed_step_ms=run.timed_step_ms,
        trace_folder=run.trace_folder,
        rich_trace_folder=run.rich_trace_folder,
        memory_folder=run.memory_folder,
        run_id=run.id,
        on_step=reporter.on_step,
    )
    send(ProfiledRun(profile=profile))


def _build(run: Run, device: torch.device) -> Training:
    variant = run.measurement.variant
    workload = load_workload(run.measurement.workload, size=variant.size, seed=run.seed)
    # Samples are drawn before anything is timed, so every core may help.
    torch.set_num_threads(training_threads())
    training = build_training(workload, variant, device=device, seed=run.seed, steps_per_epoch=run.steps_per_epoch)
    torch.set_num_threads(run.threads)
    return training


def _reporter(run: Run, training: Training, send: Send) -> ProgressReporter:
    return ProgressReporter(
        send,
        repetition=run.index,
        repetitions=run.measurement.protocol.repetitions,
        epochs=run.epochs,
        steps=len(training.train_loader),
        batch_size=run.measurement.variant.batch_size,
    )


def _describe(training: Training, measurement: Measurement) -> WorkloadFacts:
    workload = training.workload
    return WorkloadFacts(
        title=workload.title,
        parameters=sum(parameter.numel() for parameter in training.model.parameters() if parameter.requires_grad),
        train_samples=training.train_samples,
        test_samples=training.test_samples,
        steps_per_full_epoch=math.ceil(training.train_samples / measurement.variant.batch_size),
        sample_description=workload.sample_description,
        data_description=workload.data_description,
        quality_name=workload.quality_name,
        quality_chance=workload.chance(),
        optimizer=workload.optimizer_name,
        loss=workload.loss_name,
        source_file=type(workload).__module__,
        begins_anew=training.own_loop is not None,
    )
