"""Training a variant once in this process, its phases labelled as NVTX ranges for Nsight Systems.

`nsys profile --trace=cuda,nvtx,osrt gpu-report run --nvtx VARIANT` shows them beside the kernels.
Nothing is recorded, since tracing takes time.
"""

import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

from gpu_report.errors import MachineError
from gpu_report.measure.failures import classify
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.run import Message, Run, Stopped, TimedRun
from gpu_report.measure.threads import training_threads
from gpu_report.study.study import Measurement
from gpu_report.workloads.protocol import WorkloadError


def train_labelled(measurement: Measurement, *, machine: str) -> TimedRun | Stopped:
    """Train as the first repetition does, without extra epochs, and return how it ended.

    An error of PyTorch or a lack of memory is such an end, with its traceback on stderr.

    Raises:
        MachineError: PyTorch is not installed, or has no NVTX.
        WorkloadError: the workload cannot be built from the configuration.
        Exception: any other error of the workload.
    """
    require_pytorch()
    import torch

    from gpu_report.measure.training_process import train_or_profile

    try:
        torch.cuda.nvtx.mark("gpu-report")  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise MachineError(
            "this PyTorch has no NVTX; install one that is built for CUDA"
        ) from error
    messages: list[Message] = []
    with tempfile.TemporaryDirectory(
        prefix="gpu-report-compiled-", ignore_cleanup_errors=True
    ) as folder:
        run = Run(
            measurement=replace(
                measurement,
                protocol=replace(measurement.protocol, timed_epochs=1, timed_seconds=0.0),
            ),
            machine=machine,
            index=0,
            threads=training_threads(measurement.variant.device_type),
            trace_folder=Path(folder),
            cache_folder=Path(folder),
            has_nvtx_ranges=True,
        )
        if measurement.variant.has_ranks:
            raise WorkloadError(
                f"{measurement.variant.slug}: labels for Nsight Systems are for trainings of one "
                "process; start nsys with a variant without ddp and fsdp"
            )
        try:
            train_or_profile(run, messages.append)
        except (RuntimeError, MemoryError) as error:
            traceback.print_exc()
            return classify(error)
    return next(
        message for message in reversed(messages) if isinstance(message, TimedRun | Stopped)
    )
