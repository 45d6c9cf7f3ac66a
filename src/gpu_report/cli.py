"""The command `gpu-report`: what a person types and what the rules call, one function each in gpu_report.commands."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from gpu_report import __version__
from gpu_report.commands import arguments as given
from gpu_report.commands.arguments import Add
from gpu_report.errors import GpuReportError
from gpu_report.files import DISK_TROUBLE
from gpu_report.terminal import clean, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a mistake that a person can correct, or a full disk, is one line on stderr and exit status 2.

    Returns:
        The exit status; a command run by hand may also raise KeyboardInterrupt.
    """
    try:
        parsed = _parser().parse_args(arguments)
        module, function = COMMANDS[parsed.command].target.split(":")
        getattr(import_module(f"gpu_report.commands.{module}"), function)(parsed)
    except GpuReportError as error:
        problem = str(error)
    except OSError as error:
        if error.errno not in DISK_TROUBLE:
            raise
        problem = f"{error}; free some space or check the disk, then run the same again"
    else:
        return 0
    say(f"gpu-report: error: {clean(problem, keep='')}", to_stderr=True)
    return 2


class _Command:
    """One command: the function that carries it out, its one-line help and its arguments."""

    def __init__(self, target: str, help_text: str, *add_arguments: Add) -> None:
        self.target = target
        self.help = help_text
        self.add_arguments = add_arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-report",
        description="Measure PyTorch training and report it. Snakemake calls the commands from write-image-files on.",
    )
    parser.add_argument("--version", action="version", version=f"gpu-report {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help)
        for add in command.add_arguments:
            add(subparser)
    return parser


COMMANDS: Final = {
    "list": _Command(
        "overview:list_variants", "show every variant of the study and whether it is measured", given.config_files
    ),
    "run": _Command(
        "measuring:run",
        "measure variants now, one after the other, with a progress bar",
        given.variants_to_run,
        given.config_files,
    ),
    "machine": _Command("overview:show_machine", "show this machine's id and the devices PyTorch finds"),
    "plan": _Command(
        "overview:show_plan", "say what `snakemake report/gpu_report.pdf` is about to measure", given.config_files
    ),
    "machines": _Command("bundles:list_machines", "list the machines that a report can show"),
    "pack": _Command(
        "bundles:pack",
        "put a machine's records and tables into one file to publish or keep",
        given.pack,
        given.config_files,
    ),
    "unpack": _Command("bundles:unpack", "check such a file and put what it holds in place", given.unpack),
    "trace": _Command(
        "traces:trace",
        "say what a trace of PyTorch's profiler tells, whoever recorded it, and what to try",
        given.trace,
    ),
    "trace-diff": _Command(
        "traces:trace_diff", "say what changed from one trace to another, per step", given.two_traces
    ),
    "columns": _Command("traces:columns", "list the tables and their columns with unit and meaning", given.table_name),
    "numbers": _Command(
        "numbers:list_numbers", "list the numbers that a document can quote, with table and run", given.numbers
    ),
    "export": _Command(
        "exporting:export",
        "copy sections, figures and numbers of the report for a thesis, Overleaf or arXiv",
        given.export,
    ),
    "headline": _Command(
        "document:show_headline",
        "print where the report is and its headline",
    ),
    "write-image-files": _Command(
        "measuring:write_image_files",
        "write the JPEG files that the image_files workload trains on",
        given.count("--train-samples", "number of training images"),
        given.count("--test-samples", "number of held-out images"),
        given.count("--image-px", "width and height in pixels"),
        given.path("--manifest", "the manifest.json, written last, in the folder of the images"),
    ),
    "calibrate": _Command(
        "calibrating:calibrate",
        "measure what the devices of this machine reach at most",
        given.MACHINE,
        given.devices,
        given.CALIBRATION,
    ),
    "measure-variant": _Command(
        "measuring:measure_variant",
        "measure one variant of the study and write its record and traces",
        given.STUDY,
        given.text("--variant", "its name"),
    ),
    "tabulate-trace": _Command(
        "results:tabulate_trace", "turn a variant's trace into CSV tables", given.RECORD, given.TRACE, given.TABLES
    ),
    "tabulate-study": _Command(
        "results:tabulate_study",
        "turn all records and trace tables into the study's tables",
        given.STUDY,
        given.experiment,
    ),
    "tabulate-calibration": _Command(
        "results:tabulate_calibration",
        "turn the calibration into its tables",
        given.CALIBRATION,
        given.TABLES,
    ),
    "compare-machines": _Command(
        "results:compare_machines",
        "compare the machines on the variants that several of them measured",
        given.studies,
        given.COMPARISON,
    ),
    "derive-comparison": _Command(
        "results:derive_comparison", "decide what follows from comparing the machines", given.COMPARISON
    ),
    "derive-findings": _Command(
        "results:derive_findings", "decide from the tables what follows", given.STUDY, given.experiment
    ),
    "draw-figures": _Command(
        "document:draw_figures",
        "draw every figure that the tables hold data for",
        given.STUDY,
        given.experiment,
        *given.FIGURES,
    ),
    "write-sections": _Command(
        "document:write_sections", "fill the report's templates", given.STUDY, given.COMPARISON, given.FOLDER
    ),
    "write-experiment": _Command(
        "document:write_experiment",
        "fill the templates of a document about one experiment",
        given.STUDY,
        given.experiment,
        given.FOLDER,
    ),
    "draw-comparison": _Command(
        "document:draw_comparison",
        "draw the figures that show machines side by side",
        given.COMPARISON,
        *given.FIGURES,
    ),
    "draw-study": _Command("document:draw_study", "draw the networks that were trained", given.STUDY, *given.FIGURES),
    "compile-report": _Command(
        "document:compile_report",
        "compile the report with the TeX engine found",
        given.STUDY,
        given.experiment,
        given.FOLDER,
        given.path("--pdf", "the PDF"),
    ),
    "write-tensorboard-logs": _Command(
        "results:write_tensorboard_logs",
        "write the log directory that `tensorboard --logdir` shows",
        given.STUDY,
        given.path("--logs", "the log directory"),
    ),
}
