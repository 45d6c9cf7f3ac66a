"""The command that profiles a model: of the user's own, named as `module:function`, or one of ours
by its name.
"""

from argparse import Namespace
from typing import Any

from gpu_report.commands.option_names import named_as_options
from gpu_report.errors import ProfileError
from gpu_report.measure.probe import require_pytorch
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS, WITH_PLAIN_STEPS
from gpu_report.study.single import BuiltInOptions


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
    if not is_own and arguments.model not in BUILT_IN_WORKLOADS:
        raise ProfileError(
            f"MODEL: {arguments.model!r} is no built-in workload; expected a function of yours "
            "that builds the model, for instance train:build_model, or one of "
            f"{', '.join(WITH_PLAIN_STEPS)}"
        )
    if not is_own and arguments.batch_size is None:
        raise ProfileError(
            f"--batch-size: missing; {arguments.model} needs it, for instance --batch-size 16"
        )
    with named_as_options(profile, arguments, model="MODEL"):
        found = profile(
            _built(arguments.model) if is_own else arguments.model,
            _built(arguments.batch) if arguments.batch else None,
            loss=named_function(arguments.loss) if arguments.loss else None,
            **{name: getattr(arguments, name) for name in vars(BuiltInOptions())},
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
