"""The command `gpu-report`: what a person types and what the rules call, one function each in
gpu_report.commands.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from gpu_report import __version__
from gpu_report.errors import GpuReportError
from gpu_report.glossary import PRECISIONS, TIME_TOLERANCE
from gpu_report.printing.terminal import clean, say, takes
from gpu_report.storage.files import DISK_TROUBLE
from gpu_report.study.config import DEFAULT_CONFIGFILE

_MISTAKE: Final = 2
"""The exit status where a person has something to correct."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a mistake that a person can correct, or a full disk, is one line on stderr
    and exit status 2.

    For a command whose status is a verdict, every system error is one line too, and the exit status
    is 3.

    Returns:
        The exit status, 0 unless the command has others; one run by hand may also raise
        KeyboardInterrupt.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:  # else a file that is opened later gets its number and what is printed
        setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    parser = _parser()
    parsed, unknown = parser.parse_known_args(arguments)
    command = COMMANDS[parsed.command]
    has_verdict = command.error_status != _MISTAKE
    if unknown:
        parser.error_status = command.error_status
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        if has_verdict and "stdout" in closed:
            raise GpuReportError(
                "standard output is closed, so nobody would see the verdict; redirect it to a file"
            )
        module, function = command.target.split(":")
        status = int(getattr(import_module(f"gpu_report.commands.{module}"), function)(parsed) or 0)
        sys.stdout.flush()
        return status
    except GpuReportError as error:
        problem = str(error)
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


class _Parser(argparse.ArgumentParser):
    """Ends with the command's own status where its arguments are wrong."""

    error_status = _MISTAKE

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.error_status, f"{self.prog}: error: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="gpu-report",
        description="Measure PyTorch training and report it. Snakemake calls the commands from "
        "write-image-files on.",
    )
    parser.add_argument("--version", action="version", version=f"gpu-report {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help)
        subparser.error_status = command.error_status
        for argument in command.arguments:
            subparser.add_argument(argument.name, **argument.options)
    return parser


class _Argument(NamedTuple):
    """A positional argument or an option, as argparse takes it."""

    name: str
    options: dict[str, Any]


class _Command(NamedTuple):
    """The function that carries it out, as `module:function`; its one-line help; its arguments.

    The function may return an exit status.
    """

    target: str
    help: str
    arguments: Sequence[_Argument] = ()
    error_status: int = _MISTAKE
    """That of a mistake; 3 where the command's verdict has 2."""


def _optional(name: str, help_text: str, **options: Any) -> _Argument:
    return _Argument(name, {"help": help_text, **options})


def _required(name: str, help_text: str, **options: Any) -> _Argument:
    return _Argument(name, {"help": help_text, "required": True, **options})


def _flag(name: str, help_text: str) -> _Argument:
    return _Argument(name, {"help": help_text, "action": "store_true"})


def _path(name: str, help_text: str) -> _Argument:
    return _required(name, help_text, type=Path)


def _trace(name: str, metavar: str, help_text: str) -> _Argument:
    return _optional(name, help_text, type=Path, metavar=metavar)


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
_FIGURES: Final = (
    _path("--figures", "folder for the figures"),
    _optional(
        "--format",
        "pgf lets a document set the words in its own fonts, and is beside the PDF files "
        "(default: %(default)s)",
        choices=("pdf", "pgf"),
        default="pdf",
    ),
)
_OF_BUILT_IN: Final = (
    _optional("--batch-size", "for a named workload: samples per step (required)", type=int),
    _optional("--dataset", "for a named workload: synthetic (default) or cifar10"),
    _optional("--size", "for a named workload: one of its sizes, such as 128px"),
    _optional("--precision", "for a named workload: fp32 (default), tf32, fp16 or bf16"),
    _optional("--workers", "for a named workload: DataLoader workers (default: 0)", type=int),
)
_OF_COMPARISON: Final = (
    _optional(
        "--tolerance",
        "slowdown that does not matter, in percent (default: %(default)g)",
        type=float,
        default=100 * TIME_TOLERANCE,
        metavar="PERCENT",
    ),
    _optional("--json", "file for the numbers", type=Path, metavar="FILE"),
    _optional("--markdown", "file for the comment on a pull request", type=Path, metavar="FILE"),
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

COMMANDS: Final = {
    "list": _Command(
        "overview:list_variants",
        "show the study's variants and searches with their states",
        [_CONFIGFILE],
    ),
    "run": _Command(
        "measuring:run",
        "measure variants now, one after the other, with a progress bar",
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
    ),
    "new-workload": _Command(
        "new_workload:write_example",
        "write an example of a workload of your own and of its study, which run as they are, into "
        "this folder",
        [_optional("name", "of the module and the study, such as my_model", metavar="NAME")],
    ),
    "machine": _Command(
        "overview:show_machine", "show this machine's id and the devices PyTorch finds"
    ),
    "plan": _Command(
        "overview:show_plan",
        "say what `snakemake report/gpu_report.pdf` is about to measure, and what jobs of a "
        "cluster ask for",
        [
            _CONFIGFILE,
            _optional(
                "--machines", "instead of those in the configuration", nargs="+", metavar="MACHINE"
            ),
        ],
    ),
    "machines": _Command("bundles:list_machines", "list the machines that a report can show"),
    "pack": _Command(
        "bundles:pack",
        "put a machine's records and tables into one file to publish or keep",
        [
            _optional("--machine", "id of the machine (default: this one)", default=""),
            _optional(
                "--out",
                "the file to write (default: results/published/<machine>.tar.xz)",
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
    "compare": _Command(
        "comparing:compare",
        "report what got slower, needs more memory or has a worse metric between two stored sets "
        "of results; exit status 1 if anything did",
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
        error_status=3,
    ),
    "guard": _Command(
        "guarding:guard",
        "measure two versions of your training alternately and report whether it got slower; exit "
        "status 1 if it did",
        [
            _optional(
                "configurations",
                "a name that gpu-report list prints, or the function that builds your model, as "
                "module:function",
                nargs="*",
                metavar="CONFIGURATION",
            ),
            _optional(
                "--before",
                "version to compare with: a commit, branch or tag, or worktree for the folder as "
                "it is",
            ),
            _optional("--after", "version to check, named in the same way (default: worktree)"),
            _optional(
                "--before-command",
                "command to measure instead of CONFIGURATION, such as 'python train.py'",
            ),
            _optional(
                "--after-command",
                "command of the version after (default: that of --before-command)",
            ),
            _optional(
                "--before-python",
                "Python of the version before, in its own environment (default: this one)",
            ),
            _optional("--after-python", "Python of the version after (default: this one)"),
            _optional(
                "--link",
                "file or folder that git ignores, such as data",
                action="append",
                default=[],
            ),
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
                "--seconds", "for a function: measuring time per process (default: 5)", type=float
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
        error_status=3,
    ),
    "history": _Command(
        "history:show_history",
        "show the throughput of each configuration over the sessions, and the sessions at which "
        "it changed",
        [
            _optional(
                "folder",
                "folder with one bundle per session, written by gpu-report pack --out",
                type=Path,
            ),
            _optional(
                "configurations",
                "only these names from gpu-report list (default: all)",
                nargs="*",
                metavar="CONFIGURATION",
            ),
            _optional("--out", "folder for history.csv and history.pdf", type=Path, metavar="DIR"),
        ],
    ),
    "profile": _Command(
        "profiling:profile_model",
        "say what limits the training of your own model or a built-in workload, and what to try; "
        "records nothing",
        [
            _optional(
                "model",
                "function that builds it, as module:function, or a name such as unet",
                metavar="MODEL",
            ),
            _optional(
                "--batch",
                "function that makes a batch: (inputs, target), or what the model is called with",
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
                "what it takes at most (default: %(default)g)",
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
    ),
    "batch-size": _Command(
        "batch_size:find_own_batch_size",
        "find the largest batch of a model that fits, the fastest, and the smallest that is "
        "nearly as fast",
        [
            _optional(
                "model",
                "function that builds it, as module:function, or a name such as unet",
                metavar="MODEL",
            ),
            _optional(
                "--size", "for a named workload: one of its sizes, such as 128px (default: its own)"
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
                "function that takes the model and returns modules to checkpoint (default: none)",
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
                "time to measure one batch size (default: %(default)g)",
                type=float,
                default=5.0,
            ),
        ],
    ),
    "watch": _Command(
        "watching:watch",
        "show what a training script and the machine do, or without one the study that runs in "
        "this folder",
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
    ),
    "trace": _Command(
        "traces:trace",
        "say what a trace of PyTorch's profiler, from any source, shows, and what to try",
        [
            _trace("path", "FILE-or-FOLDER", "a trace, or a folder with one per rank"),
            _trace("--out", "DIR", "folder for the tables as CSV"),
        ],
    ),
    "trace-diff": _Command(
        "traces:trace_diff",
        "say what changed from one trace to another, per step",
        [
            _trace("a", "A", "the trace to start from, or a folder with one per rank"),
            _trace("b", "B", "the trace to compare with it, or a folder likewise"),
            _trace("--out", "DIR", "folder for the tables of changes as CSV"),
        ],
    ),
    "columns": _Command(
        "traces:columns",
        "list the tables and their columns with unit and meaning",
        [
            _optional(
                "table", "its name (default: every table)", nargs="?", default="", metavar="TABLE"
            )
        ],
    ),
    "numbers": _Command(
        "numbers:list_numbers",
        "list the numbers that a document can quote, with table and run",
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
    ),
    "export": _Command(
        "exporting:export",
        "copy sections, figures and numbers of the report for a thesis, Overleaf or arXiv",
        [
            _optional("folder", "the folder to write, new or empty", type=Path, metavar="DIR"),
            _flag("--arxiv", "write DIR.tar.gz instead, all files in one folder"),
            _optional(
                "--figures",
                "their format (default: %(default)s); pgf must have been drawn, by snakemake "
                "--cores 4 figures_in_pgf",
                choices=("pdf", "pgf"),
                default="pdf",
            ),
        ],
    ),
    "headline": _Command("document:show_headline", "print where the report is and its headline"),
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
    "describe-machine": _Command(
        "overview:describe_machine",
        "write down which machine a job of a cluster got",
        [_required("--name", "the machine's name in config/machines.yaml")],
    ),
    "calibrate": _Command(
        "calibrating:calibrate",
        "measure the peaks of this machine's devices",
        [
            _required("--machine", "id of this machine"),
            _required("--devices", "their PyTorch names, such as cpu cuda", nargs="+"),
            _optional(
                "--linked",
                "accelerators that share trainings, of which the link is measured; unless given, "
                "those of --devices",
                nargs="*",
                default=[],
            ),
            _CALIBRATION,
        ],
    ),
    "measure-variant": _Command(
        "measuring:measure_variant",
        "measure one variant of the study and write its record and traces",
        [_STUDY, _required("--variant", "its name")],
    ),
    "search-batch-size": _Command(
        "batch_size:search_batch_size",
        "search the batch size for a workload of the study and write what was found",
        [_STUDY, _required("--search", "its name")],
    ),
    "tabulate-trace": _Command(
        "results:tabulate_trace",
        "turn a variant's trace into CSV tables",
        [
            _path("--record", "the record.json"),
            _path(
                "--trace",
                "folder of the variant's trace; its rich trace is in the folder rich_trace beside "
                "it",
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
        "compare the machines on the variants that several of them measured",
        [
            _required(
                "--studies", "the study.json of each machine, in their order", nargs="+", type=Path
            ),
            _COMPARISON,
        ],
    ),
    "compare-sides": _Command(
        "comparing:compare_sides",
        "compare the two sets of results that the configuration names, for the report",
        [
            _path("--before", "results before the change: a bundle or a folder"),
            _path("--after", "results after the change: a bundle or a folder"),
            _path("--table", "the before_after.csv; its findings go beside it"),
        ],
    ),
    "derive-comparison": _Command(
        "results:derive_comparison",
        "decide what follows from comparing the machines",
        [_COMPARISON],
    ),
    "derive-findings": _Command(
        "results:derive_findings", "decide from the tables what follows", [_STUDY, _EXPERIMENT]
    ),
    "draw-figures": _Command(
        "document:draw_figures",
        "draw every figure that the tables have data for",
        [_STUDY, _EXPERIMENT, *_FIGURES],
    ),
    "draw-comparison": _Command(
        "document:draw_comparison",
        "draw the figures that show machines side by side",
        [_COMPARISON, *_FIGURES],
    ),
    "draw-study": _Command(
        "document:draw_study", "draw the networks that were trained", [_STUDY, *_FIGURES]
    ),
    "write-sections": _Command(
        "document:write_sections",
        "fill the report's templates, or those of a document about one experiment",
        [
            _STUDY,
            _EXPERIMENT,
            _COMPARED_WITH,
            _optional(
                "--before-after",
                "the before_after.csv, its findings beside it (default: none)",
                type=Path,
                nargs="?",
            ),
            _optional(
                "--rebuilt-by",
                "the command that makes the report again; without it the report names none",
                default="",
            ),
            _FOLDER,
        ],
    ),
    "compile-report": _Command(
        "document:compile_report",
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
}
