"""Training a variant once in this very process, its phases labelled as NVTX ranges, for whoever watches from outside.

`nsys profile --trace=cuda,nvtx,osrt gpu-report run --nvtx VARIANT` shows them beside the kernels. Nothing is recorded,
since watching takes time.
"""

import importlib.util
import tempfile
from dataclasses import replace
from pathlib import Path

from gpu_report.errors import MachineError
from gpu_report.measure.messages import Message, Stopped, TimedRun
from gpu_report.measure.run import Run
from gpu_report.measure.threads import training_threads
from gpu_report.study import Measurement


def train_labelled(measurement: Measurement, *, machine: str) -> TimedRun | Stopped:
    """Train as the first repetition does, without extra epochs, and return what came of it.

    Raises:
        MachineError: PyTorch is not installed, or has no NVTX.
        WorkloadError: the workload cannot be built from the configuration.
        Exception: whatever else ends the training, such as memory that runs out; a record would tell it.
    """
    if importlib.util.find_spec("torch") is None:
        raise MachineError("PyTorch is not installed here; install it with: pip install torch")
    from gpu_report.measure.training_process import train_or_profile

    _require_nvtx()
    messages: list[Message] = []
    with tempfile.TemporaryDirectory(prefix="gpu-report-compiled-", ignore_cleanup_errors=True) as folder:
        run = Run(
            measurement=replace(measurement, protocol=replace(measurement.protocol, timed_epochs=1, timed_seconds=0.0)),
            machine=machine,
            index=0,
            threads=training_threads(measurement.variant.device_type),
            trace_folder=Path(folder),
            cache_folder=Path(folder),
            has_nvtx_ranges=True,
        )
        train_or_profile(run, messages.append)
    return next(message for message in reversed(messages) if isinstance(message, TimedRun | Stopped))


def _require_nvtx() -> None:
    import torch

    try:
        torch.cuda.nvtx.mark("gpu-report")  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise MachineError("this PyTorch has no NVTX; install one that is built for CUDA") from error
