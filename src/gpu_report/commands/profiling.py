"""Commands about one model, of the user's own, named as `module:function`, or one of ours by its
name: profile it, and search its batch size.

`loss: ...` or `give loss=` of a GpuReportError of the Python call -> `--loss`, as it was typed
"""

import re
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from gpu_report.errors import GpuReportError, ProfileError
from gpu_report.measure.probe import require_pytorch

_ARGUMENT: Final = re.compile(r"(?<![\w.(:])(\w+)(?:=(?=[\s,;]|$)|(?=(?:, \w+)*: ))")
"""`loss=`, or `loss` before a colon, be it in a list."""


@contextmanager
def named_as_options(arguments: Namespace, **others: str) -> Iterator[None]:
    """Inside, errors name the arguments of a Python call as they are typed; `others` are not typed
    by their name.

    Raises:
        GpuReportError: as raised inside, with that text; an argument without an option stays one of
            Python.
    """
    names = {name: f"--{name.replace('_', '-')}" for name in vars(arguments)} | others

    def typed(found: re.Match[str]) -> str:
        return names.get(found[1], found[0])

    try:
        yield
    except GpuReportError as error:
        raise type(error)(_ARGUMENT.sub(typed, str(error))) from error


def profile_model(arguments: Namespace) -> None:
    """Build model and batch, print what limits the training, and write the files that are named.

    Raises:
        ConfigError: there is no built-in workload of the name, or not as it is asked for.
        ProfileError: a name leads nowhere, or the model cannot be trained.
        MachineError: PyTorch or the device is not present.
    """
    require_pytorch()
    from gpu_report.user_training.profile import profile
    from gpu_report.user_training.workload import named_function

    is_own = ":" in arguments.model
    if is_own and not arguments.batch:
        raise ProfileError("--batch: none was given; expected module:function, which makes a batch")
    with named_as_options(arguments, model="MODEL"):
        found = profile(
            _built(arguments.model) if is_own else arguments.model,
            _built(arguments.batch) if arguments.batch else None,
            loss=named_function(arguments.loss) if arguments.loss else None,
            dataset=arguments.dataset,
            batch_size=arguments.batch_size,
            size=arguments.size,
            precision=arguments.precision,
            workers=arguments.workers,
            epochs=arguments.epochs,
            device=arguments.device,
            seconds=arguments.seconds,
        )
    if arguments.json is not None:
        found.to_json(arguments.json)
    if arguments.html is not None:
        found.to_html(arguments.html)


def _built(name: str) -> Any:
    """What the function of that name returns.

    Raises:
        ProfileError: there is no such function, or it raises.
    """
    from gpu_report.user_training.workload import in_one_line, named_function

    function = named_function(name)
    try:
        return function()
    except Exception as error:
        raise ProfileError(
            f"{name}: it raised {in_one_line(error)}; expected what it is to build"
        ) from error


def find_own_batch_size(arguments: Namespace) -> None:
    """Try numbers of samples in fresh processes, and print each with the three answers.

    Raises:
        ProfileError: a name leads nowhere, or one sample cannot be trained.
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    from gpu_report.user_training.batch_size import find_batch_size

    if ":" in arguments.model and arguments.batch is None:
        raise ProfileError(
            "--batch: none was given; expected a function that takes the number of samples, as "
            "module:function, for instance train:make_batch"
        )
    with named_as_options(arguments, build="MODEL", model="MODEL", make_batch="--batch"):
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
            margin=arguments.margin,
            maximum=arguments.maximum,
            multiple_of=arguments.multiple_of,
            seconds=arguments.seconds,
        )
