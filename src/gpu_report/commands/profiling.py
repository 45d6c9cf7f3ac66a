"""The command that profiles a model of the user's own, named as `module:function`."""

import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu_report.errors import ProfileError
from gpu_report.measure.probe import require_pytorch


def profile_own_model(arguments: Namespace) -> None:
    """Build model and batch, print what limits the training, and write the files that are named.

    Raises:
        ProfileError: a name leads nowhere, or the model cannot be trained.
        MachineError: PyTorch or the device is not present.
    """
    require_pytorch()
    from gpu_report.quick import profile

    sys.path.insert(0, str(Path.cwd()))
    found = profile(
        _named(arguments.model)(),
        _named(arguments.batch)(),
        loss=_named(arguments.loss) if arguments.loss else None,
        device=arguments.device,
        seconds=arguments.seconds,
    )
    if arguments.json is not None:
        found.to_json(arguments.json)
    if arguments.html is not None:
        found.to_html(arguments.html)


def _named(name: str) -> Any:
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(import_module(module_name), function_name, None) if function_name else None
    except (ModuleNotFoundError, ValueError) as error:
        raise ProfileError(f"{name}: cannot import {module_name!r}: {error}; run this in its folder") from error
    if not callable(function):
        raise ProfileError(
            f"{name}: there is no such function; expected module:function, for instance train:build_model"
        )
    return function
