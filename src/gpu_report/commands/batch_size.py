"""The command that searches the batch size for a model of the user's own, named as `module:function`."""

import sys
from argparse import Namespace
from pathlib import Path

from gpu_report.measure.probe import require_pytorch


def find_own_batch_size(arguments: Namespace) -> None:
    """Try numbers of samples in fresh processes, and print each with the three answers.

    Raises:
        ProfileError: a name leads nowhere, or one sample cannot be trained.
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    from gpu_report.batch_size import find_batch_size

    sys.path.insert(0, str(Path.cwd()))
    find_batch_size(
        arguments.model,
        arguments.batch,
        loss=arguments.loss,
        size=arguments.size,
        optimizer=arguments.optimizer,
        checkpoint=arguments.checkpoint,
        device=arguments.device,
        precision=arguments.precision,
        accumulate=arguments.accumulate,
        memory_limit=arguments.memory_limit,
        seconds=arguments.seconds,
    )
