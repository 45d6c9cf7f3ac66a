"""The command that searches the batch size for a model of the user's own, named as `module:function`."""

import sys
from argparse import Namespace
from pathlib import Path

from gpu_report.errors import ProfileError
from gpu_report.measure.probe import require_pytorch


def find_own_batch_size(arguments: Namespace) -> None:
    """Try numbers of samples in fresh processes, and print each with the three answers.

    Raises:
        ProfileError: a name leads nowhere, or one sample cannot be trained.
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    from gpu_report.own.batch_size import find_batch_size
    from gpu_report.own.process import is_built_in

    if is_built_in(arguments.model) == (arguments.batch is not None):
        raise ProfileError(
            f"MODEL: {arguments.model!r} names no function, beside --batch; expected module:function, for instance "
            f"{arguments.model}:build_model"
            if arguments.batch is not None
            else "--batch: none was given; expected a function that takes the number of samples, as module:function, "
            "for instance train:make_batch"
        )
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
