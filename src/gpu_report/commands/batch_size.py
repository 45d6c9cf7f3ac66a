"""Commands that search the batch size: for a model of the user's own, named as `module:function`,
and for the study.
"""

import math
from argparse import Namespace

from gpu_report.commands.option_names import named_as_options
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.errors import ProfileError
from gpu_report.measure.probe import require_pytorch
from gpu_report.printing.number_format import count
from gpu_report.printing.terminal import say
from gpu_report.records.batch_sizes import SEARCH_FILE, SearchRecord
from gpu_report.storage.files import take_own_temporary_folder
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.machine import require_machine


def find_own_batch_size(arguments: Namespace) -> None:
    """Try numbers of samples in fresh processes, and print each with the three answers.

    Raises:
        ProfileError: a name leads nowhere, or one sample cannot be trained.
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    from gpu_report.user_training.batch_size import find_batch_size
    from gpu_report.user_training.process import is_built_in

    if is_built_in(arguments.model) == (arguments.batch is not None):
        raise ProfileError(
            f"MODEL: {arguments.model!r} names no function, beside --batch; expected "
            f"module:function, for instance {arguments.model}:build_model"
            if arguments.batch is not None
            else (
                "--batch: none was given; expected a function that takes the number of samples, "
                "as module:function, for instance train:make_batch"
            )
        )
    with named_as_options(
        find_batch_size, arguments, build="MODEL", model="MODEL", make_batch="--batch"
    ):
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


def search_batch_size(arguments: Namespace) -> None:
    """Search the batch size of one of the study's searches; a line on stdout for each number of
    samples.
    """
    results = ResultsFolder.of(arguments.study)
    require_machine(results.resolved.machine)
    with machine_to_itself():
        take_own_temporary_folder()
        search_one(results, arguments.search)


def search_one(results: ResultsFolder, slug: str) -> None:
    """The same in this process, which has the machine to itself.

    Raises:
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    from gpu_report.user_training.batch_size import HEAD
    from gpu_report.user_training.batch_size import search_batch_size as search

    say(f"{slug}:\n{HEAD}")
    record = search(
        results.study.search(slug),
        machine=results.resolved.machine,
        on_try=lambda probe: say(probe.row()),
    )
    SEARCH_FILE.write(record, results.search_file(slug))
    say(f"{slug}: {_outcome(record)}")


def _outcome(record: SearchRecord) -> str:
    answers = record.answers
    if answers is None:
        return f"{record.status}: {record.reason}"
    found = (answers.largest, answers.fastest, answers.smallest_near_fastest)
    largest, fastest, near = (count(samples or math.nan).plain() for samples in found)
    unresolved = "" if answers.is_resolved else " (not resolved)"
    return (
        f"largest {largest}{unresolved}, fastest {fastest}, smallest that is nearly as fast {near}"
    )
