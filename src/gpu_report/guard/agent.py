"""The process that measures one side, in that side's folder and Python: `python -m
gpu_report.guard.agent`.

a task as a line of standard input -> a fresh process -> its answer as a line of standard output; it
ends with its input

It is itself the fresh process of a function. A study's configuration gets one as the study has it,
from a server.
"""

import math
import os
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from gpu_report.errors import GpuReportError, ProfileError
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.versions import root_of
from gpu_report.measure.environment import host_environment
from gpu_report.measure.processes import MeasurementInterruptedError, carry_out_in_fresh_process
from gpu_report.measure.run import PATIENCE_S, ProfiledRun, Run, Stopped, trace_name
from gpu_report.measure.threads import training_threads
from gpu_report.measure.variant_run import ignore_progress
from gpu_report.records.provenance import code_digest, find_provenance
from gpu_report.records.record import SCHEMA_VERSION, Record
from gpu_report.study.config import read_config
from gpu_report.study.machine import find_machine
from gpu_report.study.modules import OUR_WORKLOADS, find_module
from gpu_report.study.study import load_study
from gpu_report.tables.marks import load_marks
from gpu_report.tables.verdicts import side_of

if TYPE_CHECKING:
    from gpu_report.user_training.process import OwnResult, OwnTraining

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2


def main() -> None:
    """Answer one task; what a model prints goes to standard error."""
    answers = os.fdopen(os.dup(_STDOUT), "wb")
    os.dup2(_STDERR, _STDOUT)
    line = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_input, daemon=True).start()

    def send(answer: Answer) -> None:
        answer = replace(answer, code_digest=code_digest())
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()

    try:
        task = msgspec.json.decode(line, type=Task)
        if task.configfile:
            send(_of_study(task))
        else:
            from gpu_report.user_training.process import OwnTraining, train_and_send

            _require_own(task, task.training["build"])
            training = OwnTraining(
                **task.training,
                seed=task.index,
                least_s=PATIENCE_S / 2,
                is_profiled=bool(task.trace_folder),
            )
            train_and_send(
                lambda: training, lambda found: send(_of_function(task, training, found))
            )
            os._exit(0)  # PyTorch would need a second to tidy up what nobody uses
    except msgspec.DecodeError as error:
        send(
            Answer(status="failed", reason=f"this side has another version of gpu-report: {error}")
        )
    except GpuReportError as error:
        send(Answer(status="failed", reason=str(error)))


def _end_with_input() -> None:
    """An input that has ended ends this process at once: nobody waits for an answer, and a training
    may take long.
    """
    while os.read(_STDIN, 1):
        continue
    os._exit(0)


def _of_function(task: Task, training: "OwnTraining", found: "OwnResult | Stopped") -> Answer:
    if isinstance(found, Stopped):
        return Answer(status=found.status, reason=found.reason)
    _require_own_modules(task)
    measured = found.measured
    if not measured.block_times_ms:
        return Answer(
            status="failed",
            reason=f"a step takes {measured.step_ms:.0f} ms, too long to time; give more --seconds",
        )
    if task.trace_folder and measured.trace:
        Path(task.trace_folder, trace_name()).write_bytes(measured.trace)
    return Answer(
        step_times_ms={0: measured.step_ms},
        memory_mib={0: measured.memory_peak_mib},
        memory_kind=measured.memory_kind,
        quality={0: found.metric} if math.isfinite(found.metric) else {},
        quality_name="metric",
        diverged=int(training.metric is not None and not math.isfinite(found.metric)),
        doubts=(*load_marks([measured.load]), *(() if measured.has_settled else ("unsettled",))),
        environment={
            **host_environment(),
            "torch": str(measured.torch_version),
            "device": measured.device,
        },
    )


def _of_study(task: Task) -> Answer:
    machine = find_machine(Path(task.machine_file))
    study = load_study(read_config(Path(task.configfile)), devices=machine.devices)
    measurement = study.measurement(task.configuration)
    if not measurement.workload.class_path.startswith(OUR_WORKLOADS):
        _require_own(task, measurement.workload.class_path)
    variant = replace(measurement.variant, seed=measurement.variant.seed + task.index)
    with tempfile.TemporaryDirectory(prefix="gpu-report-guard-") as temporary:
        run = Run(
            measurement=replace(measurement, variant=variant),
            machine=machine.id,
            index=0,  # each is a first run: it describes itself, its cache is empty
            is_profiled=bool(task.trace_folder),
            threads=training_threads(
                measurement.variant.device_type, sharing=measurement.variant.devices
            ),
            trace_folder=Path(task.trace_folder or temporary),
            cache_folder=Path(temporary),
        )
        try:
            outcome = carry_out_in_fresh_process(run, ignore_progress)
        except MeasurementInterruptedError as error:
            return Answer(status="failed", reason=str(error), interrupted=True)
    if isinstance(outcome.end, Stopped):
        return Answer(status=outcome.end.status, reason=outcome.end.reason)
    environment = {**host_environment(), **outcome.environment}
    if isinstance(outcome.end, ProfiledRun):
        return Answer(environment=environment)
    side = side_of(
        Record(
            schema_version=SCHEMA_VERSION,
            variant=task.configuration,
            machine=machine.id,
            status="ok",
            reason="",
            measurement=measurement.as_dict(),
            workload=outcome.facts,
            repetitions=[outcome.end.repetition],
            profile=None,
            out_of_memory=None,
            environment=environment,
            provenance=find_provenance(measurement.workload.class_path),
        )
    )
    # A line of JSON has neither the keys of these numbers nor one that is not finite.
    numbers = {
        name: dict(enumerate(filter(math.isfinite, getattr(side, name).values())))
        for name in ("step_times_ms", "memory_mib", "quality")
    }
    return Answer(**{**vars(side), **numbers}, environment=environment)


def _require_own(task: Task, name: str) -> None:
    """The code that is to be imported must be this side's, and none that is installed from
    elsewhere.

    Raises:
        ProfileError: it is not.
    """
    module = name.partition(":")[0]
    spec = find_module(module)
    if (
        not task.folder or spec is None or spec.origin is None
    ):  # what is not there at all says so when it is imported
        return
    if not _is_below(spec.origin, root_of(Path(task.folder))):
        raise _not_own(f"{name}: {module}", spec.origin)


def _require_own_modules(task: Task) -> None:
    """Nothing that was imported may come from the repository where guard was started, unless that
    is this side's.

    Raises:
        ProfileError: something does.
    """
    if not task.folder:
        return
    root, other = root_of(Path(task.folder)), root_of(Path(task.here))
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__file__", None)
        if (
            isinstance(file, str)
            and _is_below(file, other)
            and not _is_below(file, root, Path(sys.prefix))
        ):
            raise _not_own(f"{task.configuration}: {name}", file)


def _is_below(file: str, *folders: Path) -> bool:
    """Whether the file, or what it links to, is in one of the folders."""
    paths = Path(file).absolute(), Path(file).resolve()
    return any(path.is_relative_to(folder) for path in paths for folder in folders)


def _not_own(what: str, origin: str) -> ProfileError:
    return ProfileError(
        f"{what} is imported from {origin}, which is not in this side's checkout; install the "
        "repository with pip install -e or not at all, or give each side its own environment with "
        "--before-python and --after-python"
    )


if __name__ == "__main__":
    main()
