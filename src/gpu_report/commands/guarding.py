"""`gpu-report guard`: measure two versions of a training alternately and report whether it got
slower.
"""

import math
import shlex
import shutil
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from gpu_report.commands.comparison import (
    Comparison,
    changes_where_slower,
    tolerance_of,
    write_comparison,
)
from gpu_report.errors import ConfigError
from gpu_report.guard.messages import OTHER_VERSIONS, Answer, Task
from gpu_report.guard.sequence import FIRST_LOOK, SECOND_LOOK, Guarded, Pair
from gpu_report.guard.versions import (
    WORKTREE,
    Version,
    checked_out,
    commit_of,
    content_of_worktree,
    measure_version,
)
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.processes import ending_stopped
from gpu_report.printing.number_format import counted, duration
from gpu_report.printing.terminal import say
from gpu_report.records.provenance import measures_alike
from gpu_report.records.record import differing
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.machine import HERE
from gpu_report.traces.analysis import analyse_all
from gpu_report.traces.tables import TraceTables

_OF_FUNCTION: Final = {
    "batch": "make_batch",
    "loss": "loss",
    "optimizer": "optimizer",
    "metric": "metric",
}
_SETTINGS: Final = ("device", "precision", "seconds")
_LOSS_STEPS: Final = 20
"""After which a metric is computed, as compare_options does."""
_NAMES: Final = ("before", "after")


def guard(arguments: Namespace) -> int:
    """Measure both versions alternately, print what changed, and return the exit status of
    `Comparison`.

    Raises:
        ConfigError: an option does not fit the others, or git has no such version.
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    tolerance = tolerance_of(arguments)
    _check(arguments)
    end_in_order()
    with ExitStack() as stack:
        stack.enter_context(machine_to_itself(limit_s=60 * arguments.wait))
        content = content_of_worktree()
        folder_of_all = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-report-guard-"))
        sides: list[Version] = []
        for name in _NAMES:
            reference = getattr(arguments, name) or WORKTREE
            written = [file for file in (arguments.json, arguments.markdown) if file is not None]
            folder, words = stack.enter_context(checked_out(reference, written=written))
            python = shutil.which(getattr(arguments, f"{name}_python") or "") or sys.executable
            words += f", {python}" * (python != sys.executable)
            absolute = str(Path(python).absolute())
            sides.append(Version(name=name, folder=folder, words=words, python=absolute))
        tasks = {name: _task(name, arguments) for name in arguments.configurations}
        in_one_folder = sides[0].folder == sides[1].folder

        def measure(side: int, name: str, index: int, *, trace_folder: str = "") -> Answer:
            version = sides[side]
            task = Task(
                **tasks[name],
                machine_file=str(Path(folder_of_all, version.name, HERE.name)),
                # Two Pythons in one folder may have its code installed.
                folder="" if in_one_folder else str(version.folder),
                index=index,
                trace_folder=trace_folder,
            )
            with ending_stopped(f"guard of {name}"):
                return measure_version(version, task)

        def profile(name: str) -> Iterator[TraceTables]:
            for side in range(len(sides)):
                with tempfile.TemporaryDirectory(prefix="gpu-report-trace-") as folder:
                    measure(side, name, 0, trace_folder=folder)
                    has_trace = any(Path(folder).iterdir())
                    yield analyse_all(Path(folder), say)[0].rows if has_trace else {}

        def look_at(name: str, pair: Pair) -> None:
            now = content_of_worktree()
            if changed := [part for part, state in content.items() if now.get(part) != state]:
                raise ConfigError(
                    f"{changed[0]} changed while this folder was measured; leave the folder as it "
                    "is, or list in .gitignore what the training itself writes, then run guard "
                    "again"
                )
            _look_at(name, pair)

        guarded = Guarded([*tasks], measure, tolerance=tolerance, on_pair=look_at)
        rows = guarded.run()
        changes, notes = changes_where_slower(rows, profile)
        most = max(len(pairs) for pairs in guarded.pairs.values())
        looks = (
            f"the intervals account for two looks, at {FIRST_LOOK} and {SECOND_LOOK} pairs; pairs "
            "with quality flags are left out if enough others remain"
        )
        found = [
            text
            for pairs in guarded.pairs.values()
            for before, after in pairs
            if before.environment and after.environment  # a side that failed may name none
            for text in differing(before.environment, after.environment)
        ]
        if sides[0].words == sides[1].words:
            found.append("both sides are the same, so any change is a false alarm")
        comparison = Comparison(
            before=sides[0].words,
            after=sides[1].words,
            how=f"measured alternately, {counted(most, 'pair')} of fresh processes; {looks}",
            rows=rows,
            repeat=shlex.join(["gpu-report", *sys.argv[1:]]),
            notes=[*dict.fromkeys(found), *notes],
            changes=changes,
        )
    write_comparison(comparison, arguments)
    return comparison.status


def end_in_order() -> None:
    """What asks this process to end, as the end of a job or of a terminal, ends it in order:
    checkouts are removed.

    A signal that is ignored, as nohup does, stays so.
    """
    asking = (signal.SIGTERM, signal.SIGHUP)
    heeded = [number for number in asking if signal.getsignal(number) is not signal.SIG_IGN]

    def end(number: int, _frame: object) -> None:
        for each in heeded:  # a second signal must not interrupt the removal
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in heeded:
        signal.signal(number, end)


def _check(arguments: Namespace) -> None:
    for name in arguments.configurations:
        if Path(f"{name.removesuffix('.py')}.py").is_file():
            raise ConfigError(
                f"{name}: there is such a file; name the function in it that builds the model as "
                "module:function, for instance train:build_model"
            )
    functions = [name for name in arguments.configurations if ":" in name]
    for option in (*_OF_FUNCTION, *_SETTINGS):
        if getattr(arguments, option) is not None and not functions:
            raise ConfigError(
                f"--{option}: it applies only to a function; name one as module:function"
            )
    if arguments.seconds is not None and not 0 < arguments.seconds < math.inf:
        raise ConfigError(f"--seconds: it is {arguments.seconds:g}; expected a positive number")
    for name in _NAMES:
        python = getattr(arguments, f"{name}_python")
        if python and shutil.which(python) is None:
            raise ConfigError(
                f"--{name}-python: {python} cannot be run; name the Python of an environment"
            )
    if functions and arguments.batch is None:
        raise ConfigError(
            f"--batch: {functions[0]} needs a function that makes a batch, for instance "
            "train:make_batch"
        )
    given = ("before", "after", "before_python", "after_python")
    if all(getattr(arguments, name) is None for name in given):
        raise ConfigError("--before: name the version to compare with, for instance --before main")
    for reference in (arguments.before, arguments.after):
        if reference not in (None, WORKTREE):
            commit_of(reference)


def _task(name: str, arguments: Namespace) -> dict[str, Any]:
    if ":" not in name:
        return {"configuration": name, "configfile": str(arguments.configfile)}
    given = {**_OF_FUNCTION, **{option: option for option in _SETTINGS}}
    training = {
        field: getattr(arguments, option)
        for option, field in given.items()
        if getattr(arguments, option) is not None
    }
    if arguments.metric is not None:
        training["loss_steps"] = _LOSS_STEPS
    return {"configuration": name, "here": str(Path.cwd()), "training": {"build": name, **training}}


def _look_at(name: str, pair: Pair) -> None:
    """Print what a pair took.

    Raises:
        ConfigError: a process was ended from outside, neither side can be measured, or the sides
            are measured by two versions of gpu-report.
    """
    before, after = pair
    if ended := next((answer for answer in pair if answer.interrupted), None):
        raise ConfigError(
            f"{name}: {ended.reason}; this does not show that this side is at fault; run guard "
            "again"
        )
    if before.status == after.status == "failed":
        why = (
            before.reason
            if before.reason == after.reason
            else f"before: {before.reason}; after: {after.reason}"
        )
        raise ConfigError(f"{name}: neither side can be measured: {why}")
    codes = [answer.code_digest for answer in pair if answer.code_digest]
    if len(codes) == len(pair) and not measures_alike(*codes):
        raise ConfigError(OTHER_VERSIONS)
    shown = [
        duration(sum(answer.step_times_ms.values()) / 1e3).plain()
        if answer.status == "ok"
        else answer.status
        for answer in pair
    ]
    doubts = sorted({doubt for answer in pair for doubt in answer.doubts})
    say(
        f"{name}: {shown[0]} before, {shown[1]} after" + f" ({', '.join(doubts)})" * bool(doubts),
        to_stderr=True,
    )
