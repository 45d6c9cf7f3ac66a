"""The command `gpu-report`: what a person types and, under `stage`, what the rules call.

COMMANDS -> parser -> one function of gpu_report.commands; its exit status is that of the process
"""

import argparse
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from gpu_report import __version__
from gpu_report.commands.measuring_job import carried_out
from gpu_report.errors import ConfigError, GpuReportError, lacking
from gpu_report.glossary import PRECISIONS, TIME_TOLERANCE
from gpu_report.printing.terminal import clean, say, takes
from gpu_report.storage.files import DISK_TROUBLE, require_writable
from gpu_report.study.config import DEFAULT_CONFIGFILE

STAGE: Final = "stage"
"""The group of what the rules call."""
MEASURING_STAGES: Final = "measuring rules"
"""What the measuring rules call, without `stage`: Snakemake runs a rule again when its command has
changed, which would measure every study anew. Help does not list it.
"""
_PROGRAM: Final = "gpu-report"
_MISTAKE: Final = 2
"""The exit status where a person has something to correct."""
_WRITTEN: Final = frozenset({"--json", "--markdown", "--html"})
"""Options that name a file to write."""


def main(
    arguments: Sequence[str] | None = None,
    *,
    carry_out: Callable[[Sequence[str]], int] | None = None,
) -> int:
    """Run one command; a mistake that a person can correct, or a full disk, is one line on stderr
    and exit status 2.

    For a command whose status is a verdict, every system error is one line too, and the exit status
    is 3. What measures for the jobs of Snakemake carries out their commands by `carry_out`.

    Returns:
        The exit status, 0 unless the command has others; one run by hand may also raise
        KeyboardInterrupt.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:  # else a file that is opened later gets its number and what is printed
        setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    parser = _parser()
    parsed, unknown = parser.parse_known_args(arguments, Namespace(carry_out=carry_out or main))
    command: _Command = parsed.command
    has_verdict = command.error_status != _MISTAKE
    if unknown:
        parser.error_status = command.error_status
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        if has_verdict and "stdout" in closed:
            raise GpuReportError(
                "standard output is closed, so nobody would see the verdict; redirect it to a file"
            )
        _check_files(command, parsed)
        status = carried_out(arguments or sys.argv[1:]) if command.measures else None
        if status is None:
            module, function = command.target.split(":")
            status = int(
                getattr(import_module(f"gpu_report.commands.{module}"), function)(parsed) or 0
            )
        sys.stdout.flush()
        return status
    except GpuReportError as error:
        problem = str(error)
    except ModuleNotFoundError as error:
        problem = lacking(error)
    except OSError as error:
        is_unread = isinstance(error, BrokenPipeError) and not takes(sys.stdout, "\n")
        if is_unread and not has_verdict:
            return 128 + signal.SIGPIPE  # as other programs end if nobody reads their output
        if not (has_verdict or error.errno in DISK_TROUBLE):
            raise
        what_to_do = (
            "free some space or check the disk" if error.errno in DISK_TROUBLE else "correct that"
        )
        problem = (
            f"{'standard output was closed too early' if is_unread else error}; {what_to_do}, "
            "then run the same again"
        )
    say(f"gpu-report: error: {clean(problem, keep='')}", to_stderr=True)
    return command.error_status


def _check_files(command: "_Command", parsed: Namespace) -> None:
    """Refuse before anything is measured what could not be written at the end, or would be written
    over another file of the command.

    Raises:
        ConfigError: two arguments name one file, and one of them is written, or one names `-`.
        FileWriteError: a file cannot be written.
    """
    paths = {
        name if name.startswith("-") else name.upper(): path
        for name, _ in command.arguments
        if isinstance(path := getattr(parsed, name.strip("-").replace("-", "_")), Path)
    }
    if Path("-") in paths.values():
        raise ConfigError("-: standard input and output are no file here; name a file")
    for (name, path), (other, named) in permutations(paths.items(), 2):
        if name in _WRITTEN and os.path.realpath(path) == os.path.realpath(named):
            raise ConfigError(f"{name}: it is {path}, as {other} is; use another file")
    for name in _WRITTEN & paths.keys():
        require_writable(paths[name])


class _Parser(argparse.ArgumentParser):
    """Ends with the command's own status where its arguments are wrong."""

    error_status = _MISTAKE

    def format_help(self) -> str:
        # A line for each command that a person types, by job.
        lines = [
            f"{'' if index else job:17}{name:14}{command.summary}\n"
            for job in COMMANDS
            if job not in (STAGE, MEASURING_STAGES)
            for index, (name, command) in enumerate(COMMANDS[job].items())
        ]
        usage = f"usage: {_PROGRAM} [--version] COMMAND ...; --help after a command explains it\n"
        return (usage + "".join(lines)) if self.prog == _PROGRAM else super().format_help()

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.error_status, f"{self.prog}: error: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(prog=_PROGRAM)
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    stage = commands.add_parser(STAGE, description="what the rules of the workflow call")
    stages = stage.add_subparsers(required=True, metavar="NAME")
    for job, of_job in COMMANDS.items():
        for name, command in of_job.items():
            subparser = (stages if job == STAGE else commands).add_parser(
                name,
                help=command.summary,
                description="; ".join(filter(None, [command.summary, command.more])),
            )
            subparser.error_status = command.error_status
            subparser.set_defaults(command=command)
            for argument, options in command.arguments:
                subparser.add_argument(argument, **options)
    return parser


class _Command(NamedTuple):
    """The function that carries it out, as `module:function`, which may return an exit status; its
    help in a line, and more of it; its arguments.
    """

    target: str
    summary: str
    arguments: "Sequence[_Argument]" = ()
    more: str = ""
    error_status: int = _MISTAKE
    """Exit status for user errors; 3 where the command's verdict has 2."""
    measures: bool = False
    """Whether the jobs of a Snakemake run leave it to one process."""


_Argument = tuple[str, dict[str, Any]]
"""A positional argument or an option with what argparse takes of it."""


def _optional(name: str, help_text: str, **options: Any) -> _Argument:
    return name, {"help": help_text, **options}


_flag: Final = partial(_optional, action="store_true")
_required: Final = partial(_optional, required=True)
_path: Final = partial(_required, type=Path)

_CONFIGFILE: Final = _optional(
    "--configfile",
    "the study's configuration (default: %(default)s)",
    type=Path,
    default=DEFAULT_CONFIGFILE,
)
_STUDY: Final = _path(
    "--study", "the study.json in the folder of one machine's results, which the command works on"
)
_EXPERIMENT: Final = _optional(
    "--experiment", "only this one, apart from the others (default: all)", default=""
)
_FIGURES: Final = _path("--figures", "folder for the figures")
_OF_BUILT_IN: Final = (
    _optional("--batch-size", "for a named workload: samples per step (required)", type=int),
    _optional("--dataset", "for a named workload: synthetic (default) or cifar10"),
    _optional("--size", "for a named workload: one of its sizes, such as 128px"),
    _optional("--precision", "for a named workload: fp32 (default), tf32, fp16 or bf16"),
    _optional("--workers", "for a named workload: DataLoader workers (default: 0)", type=int),
)
_FILES: Final = (
    _optional("--json", "file for the numbers", type=Path, metavar="FILE"),
    _optional("--markdown", "file for the comment on a pull request", type=Path, metavar="FILE"),
)
_OF_COMPARISON: Final = (
    _optional(
        "--tolerance",
        "slowdown that does not matter, in percent (default: %(default)g)",
        type=float,
        default=100 * TIME_TOLERANCE,
        metavar="PERCENT",
    ),
    *_FILES,
)
_FOLDER: Final = _path("--folder", "folder of the document: its text and figures")
_TABLES: Final = _path("--tables", "folder for the tables")
_CALIBRATION: Final = _path("--calibration", "the calibration.json")
_COMPARISON: Final = _path("--comparison", "the comparison.csv; its findings are beside it")
_COMPARED_WITH: Final = _optional(
    "--comparison",
    "the comparison.csv, its findings beside it (default: none)",
    type=Path,
    nargs="?",
)

COMMANDS: Final[dict[str, dict[str, _Command]]] = {
    "measure a study": {
        "machine": _Command(
            "overview:show_machine",
            "show this machine's id and its devices",
        ),
        "plan": _Command(
            "planning:show_plan",
            "show what a study will measure",
            [
                _CONFIGFILE,
                _optional(
                    "--machines",
                    "instead of those in the configuration",
                    nargs="+",
                    metavar="MACHINE",
                ),
                _optional(
                    "--minutes",
                    "time budget in minutes, instead of the configuration file's",
                    type=float,
                ),
            ],
            more="includes the estimated time and what cluster jobs request",
        ),
        "list": _Command(
            "overview:list_variants",
            "list the study's configurations with their states",
            [_CONFIGFILE],
            more="searches too",
        ),
        "run": _Command(
            "measuring:run",
            "measure configurations now, with a progress bar",
            [
                _optional(
                    "variants",
                    "a name, also of a search, as gpu-report list shows it",
                    nargs="*",
                    metavar="VARIANT",
                ),
                _optional(
                    "--workload", "name of a workload to measure instead of VARIANT, such as unet"
                ),
                *_OF_BUILT_IN,
                _optional(
                    "--epochs", "with --workload: epochs to train and evaluate (required)", type=int
                ),
                _optional(
                    "--steps-per-epoch", "with --workload: steps per epoch, to shorten it", type=int
                ),
                _optional(
                    "--device",
                    "with --workload: PyTorch's name (default: the accelerator, if there is one)",
                ),
                _optional(
                    "--optimization",
                    "with --workload: optimizations to switch on, such as pinned+compile",
                ),
                _optional(
                    "--parallelism", "with --workload: how devices share the training, such as ddp2"
                ),
                _optional(
                    "--repetitions",
                    "with --workload: number of fresh processes (default: the study's)",
                    type=int,
                ),
                _flag("--record", "with --workload: keep the record in results/machines"),
                _flag("--missing", "also all that are not measured, or are out of date"),
                _flag(
                    "--nvtx",
                    "train once with NVTX ranges, for nsys profile --trace=cuda,nvtx; nothing is "
                    "recorded",
                ),
                _CONFIGFILE,
            ],
            more="one after the other",
        ),
        "new-study": _Command(
            "new_study:write_study",
            "write the files of a study into a new folder",
            [_optional("folder", "a new or empty folder", metavar="FOLDER", type=Path)],
            more="the study needs no checkout of gpu-report",
        ),
        "new-workload": _Command(
            "new_study:write_example",
            "write an example of a workload of your own",
            [_optional("name", "of the module and the study, such as my_model", metavar="NAME")],
            more="and of its study, which run as they are, into this folder",
        ),
    },
    "look at a model": {
        "profile": _Command(
            "profiling:profile_model",
            "say what limits a training and what to try",
            [
                _optional(
                    "model",
                    "function that builds it, as module:function, or a name such as unet",
                    metavar="MODEL",
                ),
                _optional(
                    "--batch",
                    "makes a batch: (inputs, target), or what the model is called with",
                ),
                _optional(
                    "--loss",
                    "function of output and target (default: the model returns the loss)",
                    default="",
                ),
                _optional(
                    "--device",
                    "PyTorch's name (default: the accelerator, if there is one)",
                    default="auto",
                ),
                *_OF_BUILT_IN,
                _optional(
                    "--epochs",
                    "for a named workload: at most this many epochs (default: no limit)",
                    type=int,
                ),
                _optional(
                    "--seconds",
                    "time limit in seconds (default: %(default)g)",
                    type=float,
                    default=60.0,
                ),
                _optional("--json", "file for the numbers", type=Path, metavar="FILE"),
                _optional(
                    "--html",
                    "HTML file for the card, the timeline and the kernels",
                    type=Path,
                    metavar="FILE",
                ),
            ],
            more="your own model's or a built-in workload's; records nothing",
        ),
        "batch-size": _Command(
            "profiling:find_own_batch_size",
            "find the largest batch that fits, and the fastest",
            [
                _optional(
                    "model",
                    "function that builds it, as module:function, or a name such as unet",
                    metavar="MODEL",
                ),
                _optional(
                    "--size",
                    "for a named workload: one of its sizes, such as 128px (default: its own)",
                ),
                _optional(
                    "--batch", "function that takes the number of samples and makes such a batch"
                ),
                _optional(
                    "--loss", "function of output and target (default: the model returns the loss)"
                ),
                _optional(
                    "--optimizer",
                    "function that makes an optimizer from the parameters (default: AdamW)",
                ),
                _optional(
                    "--checkpoint",
                    "takes the model, returns the modules to checkpoint (default: none)",
                ),
                _optional(
                    "--device",
                    "PyTorch's name (default: the accelerator, if there is one)",
                    default="auto",
                ),
                _optional(
                    "--precision",
                    "of the training (default: %(default)s)",
                    choices=PRECISIONS,
                    default="fp32",
                ),
                _optional(
                    "--accumulate",
                    "batches whose gradients a step adds up (default: %(default)d)",
                    type=int,
                    default=1,
                ),
                _optional(
                    "--memory-limit",
                    "memory to use at most (default: what is free now)",
                    type=float,
                    metavar="GIB",
                ),
                _optional(
                    "--margin",
                    "share of that memory to leave (default: %(default)g)",
                    type=float,
                    default=0.0,
                ),
                _optional(
                    "--maximum", "the largest number of samples to try (default: no end)", type=int
                ),
                _optional(
                    "--multiple-of",
                    "try multiples of this number only (default: %(default)d)",
                    type=int,
                    default=1,
                ),
                _optional(
                    "--seconds",
                    "seconds to measure one batch size (default: %(default)g)",
                    type=float,
                    default=5.0,
                ),
            ],
            more="and the smallest that is nearly as fast",
        ),
        "watch": _Command(
            "watching:watch",
            "show what a script does",
            [
                _optional(
                    "--interval",
                    "seconds between two lines outside a terminal",
                    type=float,
                    default=10.0,
                ),
                _optional(
                    "script",
                    "the command to run, such as -- python train.py ARGS; its exit status is this "
                    "one's",
                    nargs="...",
                    metavar="COMMAND",
                ),
            ],
            more="and what the machine does",
        ),
        "trace": _Command(
            "traces:trace",
            "say what a trace shows and what to try",
            [
                _optional(
                    "path",
                    "a trace, or a folder with one per rank",
                    type=Path,
                    metavar="FILE-or-FOLDER",
                ),
                _optional("--out", "folder for the tables as CSV", type=Path, metavar="DIR"),
                _optional(
                    "--uncaptured",
                    "trace of the same work before its capture: operations of CUDA graphs",
                    type=Path,
                    metavar="FILE",
                ),
                _optional(
                    "--html",
                    "HTML file for the step, what to try, the timeline and the tables",
                    type=Path,
                    metavar="FILE",
                ),
            ],
            more="a trace of PyTorch's profiler, from any source",
        ),
        "trace-diff": _Command(
            "traces:trace_diff",
            "say what changed from one trace to another",
            [
                _optional(
                    "a",
                    "the trace to start from",
                    type=Path,
                    metavar="A",
                ),
                _optional(
                    "b",
                    "the trace to compare with it",
                    type=Path,
                    metavar="B",
                ),
                _optional(
                    "--out", "folder for the tables of changes as CSV", type=Path, metavar="DIR"
                ),
            ],
            more="per step",
        ),
    },
    "compare": {
        "compare": _Command(
            "comparison:compare",
            "report what got worse between stored results",
            [
                _optional(
                    "before",
                    "results before the change: a bundle or a folder",
                    type=Path,
                    metavar="BEFORE",
                ),
                _optional(
                    "after",
                    "results after the change: a bundle or a folder",
                    type=Path,
                    metavar="AFTER",
                ),
                _flag(
                    "--across",
                    "compare even if machine, protocol or settings differ, and list what differs",
                ),
                *_OF_COMPARISON,
            ],
            more="step time, memory and metric; exit status 1 if any of them did",
            error_status=3,
        ),
        "guard": _Command(
            "guarding:guard",
            "report whether a change made a training slower",
            [
                _optional(
                    "configurations",
                    "a name that gpu-report list prints, or the function that builds your "
                    "model, as module:function",
                    nargs="+",
                    metavar="CONFIGURATION",
                ),
                _optional(
                    "--before",
                    "version to compare with: a commit, branch or tag, or worktree for the "
                    "folder as it is",
                ),
                _optional("--after", "version to check, named in the same way (default: worktree)"),
                _optional(
                    "--before-python",
                    "Python of the version before, in its own environment (default: this one)",
                ),
                _optional("--after-python", "Python of the version after (default: this one)"),
                _optional(
                    "--batch", "for a function: the function that makes a batch, as module:function"
                ),
                _optional(
                    "--loss",
                    "for a function: takes output and target (default: the model returns the loss)",
                ),
                _optional(
                    "--optimizer",
                    "for a function: makes the optimizer from the parameters (default: AdamW)",
                ),
                _optional(
                    "--metric",
                    "for a function: takes the trained model, returns a number; higher is better",
                ),
                _optional(
                    "--device",
                    "for a function: PyTorch's name (default: the accelerator, if there is one)",
                ),
                _optional(
                    "--precision",
                    "for a function: fp32 (default), tf32, fp16 or bf16",
                    choices=PRECISIONS,
                ),
                _optional(
                    "--seconds",
                    "for a function: seconds to measure in each process (default: 5)",
                    type=float,
                ),
                _optional(
                    "--wait",
                    "longest wait for another measurement on this machine (default: %(default)g "
                    "minutes)",
                    type=float,
                    default=60.0,
                    metavar="MINUTES",
                ),
                *_OF_COMPARISON,
                _CONFIGFILE,
            ],
            more="measures two versions alternately; exit status 1 if it got slower",
            error_status=3,
        ),
        "reproduce": _Command(
            "reproducing:reproduce",
            "test the claims of stored results on this machine",
            [
                _optional(
                    "bundle",
                    "results to test: a bundle file or a folder of results/machines",
                    type=Path,
                    metavar="BUNDLE",
                ),
                _optional(
                    "--minutes",
                    "time limit in minutes (default: %(default)g)",
                    type=float,
                    default=10.0,
                ),
                *_FILES,
                _CONFIGFILE,
            ],
            more="measures as many configurations as fit; exit status 1 if a claim is "
            "contradicted, 2 if one is too close to call or none was tested",
            error_status=3,
        ),
    },
    "publish": {
        "pack": _Command(
            "bundles:pack",
            "put a machine's results into one file",
            [
                _optional("--machine", "id of the machine (default: this one)", default=""),
                _optional(
                    "--out",
                    "the file to write (default: <machine>.tar.xz in results/published, or in the "
                    "folder of the study there)",
                    type=Path,
                ),
                _flag(
                    "--traces",
                    "with the profiler's traces, to go on measuring from it; by default not into "
                    "results/published",
                ),
                _flag(
                    "--allow-dirty",
                    "also records that were measured by code that is in no commit; the bundle says "
                    "how many",
                ),
                _CONFIGFILE,
            ],
            more="its records and tables, to publish or keep",
        ),
        "unpack": _Command(
            "bundles:unpack",
            "check such a file and put its content in place",
            [
                _optional("bundle", "the file that gpu-report pack wrote", type=Path),
                _optional(
                    "--machine-folder",
                    "folder with a folder for each machine (default: %(default)s)",
                    type=Path,
                    default=Path("results/machines"),
                ),
            ],
        ),
        "cite": _Command(
            "bundles:cite",
            "print BibTeX and a paragraph about the artifact",
            [
                _optional(
                    "results",
                    "id of a machine, or a bundle (default: the only machine)",
                    nargs="?",
                    default="",
                    metavar="MACHINE",
                ),
                _optional(
                    "--configfile",
                    f"the study's configuration (default: {DEFAULT_CONFIGFILE})",
                    type=Path,
                    default=DEFAULT_CONFIGFILE,
                ),
            ],
            more="hardware, software, time, energy, disk, and how to rebuild the report",
        ),
        "machines": _Command(
            "bundles:list_machines",
            "list the machines that a report can show",
            [
                _optional(
                    "--html",
                    "write an HTML file that compares the published machines instead",
                    type=Path,
                    metavar="FILE",
                ),
                _optional(
                    "--configfile",
                    "with --html: the configuration with prices (default: %(default)s)",
                    type=Path,
                    default=DEFAULT_CONFIGFILE,
                ),
            ],
        ),
        "numbers": _Command(
            "bundles:list_numbers",
            "list the numbers that a document can quote",
            [
                _optional(
                    "words",
                    "show the keys with all of these, such as unet speedup",
                    nargs="*",
                    metavar="WORD",
                ),
                _optional(
                    "--folder",
                    "folder of the report (default: %(default)s)",
                    type=Path,
                    default=Path("report"),
                ),
            ],
            more="with table and run",
        ),
        "columns": _Command(
            "traces:columns",
            "list the tables and columns, unit and meaning",
            [
                _optional(
                    "table",
                    "its name (default: every table)",
                    nargs="?",
                    default="",
                    metavar="TABLE",
                )
            ],
        ),
    },
    MEASURING_STAGES: {
        "write-image-files": _Command(
            "measuring:write_image_files",
            "write the JPEG files that the image_files workload trains on",
            [
                _required("--train-samples", "number of training images", type=int),
                _required("--test-samples", "number of held-out images", type=int),
                _required("--image-px", "width and height in pixels", type=int),
                _path("--manifest", "the manifest.json, written last, in the folder of the images"),
            ],
        ),
        "calibrate": _Command(
            "measuring:calibrate",
            "measure the peaks of this machine's devices",
            [
                _required("--machine", "id of this machine"),
                _required("--devices", "their PyTorch names, such as cpu cuda", nargs="+"),
                _optional(
                    "--linked",
                    "accelerators that share trainings, of which the link is measured "
                    "(default: those of --devices)",
                    nargs="*",
                    default=[],
                ),
                _CALIBRATION,
            ],
            measures=True,
        ),
        "measure-variant": _Command(
            "measuring:measure_variant",
            "measure one configuration of the study and write its record and traces",
            [_STUDY, _required("--variant", "its name")],
            measures=True,
        ),
        "measure-further": _Command(
            "budget:measure_further",
            "measure further processes; with a time budget, only for open comparisons",
            [_STUDY, _EXPERIMENT],
            measures=True,
        ),
        "measure-sentinels": _Command(
            "measuring:measure_sentinels",
            "measure the study's sentinels if anything was measured since they were",
            [_STUDY],
            measures=True,
        ),
        "search-batch-size": _Command(
            "measuring:search_batch_size",
            "search the batch size for a workload of the study and write what was found",
            [_STUDY, _required("--search", "its name")],
            measures=True,
        ),
    },
    STAGE: {
        "describe-machine": _Command(
            "overview:describe_machine",
            "write down which machine a job of a cluster got",
            [_required("--name", "the machine's name in config/machines.yaml")],
        ),
        "measure-for-jobs": _Command(
            "measuring_job:measure_for_jobs",
            "measure for the jobs of a Snakemake run until it ends",
            [
                _required("--snakemake", "the process of Snakemake"),
                _required("--address", "the socket to listen on"),
            ],
        ),
        "tabulate-trace": _Command(
            "results:tabulate_trace",
            "turn a configuration's trace into CSV tables",
            [
                _path("--record", "the record.json"),
                _path(
                    "--trace",
                    "folder of the configuration's trace; the rich one is in the folder rich_trace "
                    "beside it",
                ),
                _TABLES,
            ],
        ),
        "tabulate-study": _Command(
            "results:tabulate_study",
            "turn all records and trace tables into the study's tables",
            [_STUDY, _EXPERIMENT],
        ),
        "tabulate-calibration": _Command(
            "results:tabulate_calibration",
            "turn the calibration into its tables",
            [_CALIBRATION, _TABLES],
        ),
        "compare-machines": _Command(
            "results:compare_machines",
            "compare the machines on the configurations that several of them measured, and decide "
            "what follows",
            [
                _required(
                    "--studies",
                    "the study.json of each machine, in their order",
                    nargs="+",
                    type=Path,
                ),
                _COMPARISON,
            ],
        ),
        "derive-findings": _Command(
            "results:derive_findings",
            "decide from the tables what follows",
            [_STUDY, _EXPERIMENT],
        ),
        "draw-figures": _Command(
            "document:draw_figures",
            "draw every figure that the tables have data for",
            [_STUDY, _EXPERIMENT, _FIGURES],
        ),
        "draw-comparison": _Command(
            "document:draw_comparison",
            "draw the figures that show machines side by side",
            [_COMPARISON, _FIGURES],
        ),
        "draw-study": _Command(
            "document:draw_study",
            "draw the networks that were trained",
            [_STUDY, _FIGURES],
        ),
        "write-sections": _Command(
            "document:write_sections",
            "fill the report's templates, or those of a document about one experiment",
            [
                _STUDY,
                _EXPERIMENT,
                _COMPARED_WITH,
                _optional(
                    "--rebuilt-by",
                    "the command that makes the report again; without it the report names none",
                    default="",
                ),
                _optional(
                    "--templates",
                    "folder with a study's own templates; can be given again",
                    type=Path,
                    action="append",
                    default=[],
                ),
                _FOLDER,
            ],
        ),
        "compile-report": _Command(
            "results:compile_report",
            "compile the report with the TeX engine that is installed",
            [_STUDY, _EXPERIMENT, _FOLDER, _path("--pdf", "the PDF")],
        ),
        "write-page": _Command(
            "document:write_page",
            "write the HTML file that shows a machine's results in a browser",
            [_STUDY, _COMPARED_WITH, _path("--page", "the HTML file")],
        ),
        "write-tensorboard-logs": _Command(
            "results:write_tensorboard_logs",
            "write the log directory that `tensorboard --logdir` shows",
            [_STUDY, _path("--logs", "the log directory")],
        ),
    },
}
"""By job: what a person types, then what the rules call."""
