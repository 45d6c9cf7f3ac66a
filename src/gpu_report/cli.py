"""The command `gpu-report`: what a person types and what the rules call, one function each in gpu_report.commands."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from gpu_report import __version__
from gpu_report.errors import GpuReportError

Add = Callable[[argparse.ArgumentParser], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a mistake that a person can mend is one line on stderr and exit status 2.

    The console script passes the returned number to the shell. A command run by hand may be interrupted with Ctrl-C.
    """
    parsed = _parser().parse_args(arguments)
    module, function = COMMANDS[parsed.command].target.split(":")
    try:
        getattr(import_module(f"gpu_report.commands.{module}"), function)(parsed)
    except GpuReportError as error:
        print(f"gpu-report: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpu-report: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


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


def _path(flag: str, help_text: str) -> Add:
    return lambda parser: _add(parser, flag, help_text, type_=Path)


def _text(flag: str, help_text: str) -> Add:
    return lambda parser: _add(parser, flag, help_text, type_=str)


def _count(flag: str, help_text: str) -> Add:
    return lambda parser: _add(parser, flag, help_text, type_=int)


def _add(parser: argparse.ArgumentParser, flag: str, help_text: str, *, type_: Callable[[str], object]) -> None:
    parser.add_argument(flag, required=True, type=type_, help=help_text)


def _config_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--configfile",
        type=Path,
        default=Path("config/study.yaml"),
        help="the study's configuration (default: %(default)s)",
    )


def _variants_to_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help="a name, as gpu-report list shows it")
    parser.add_argument("--missing", action="store_true", help="also all that are not measured, or are out of date")


def _variants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--variants", required=True, nargs="+", help="names of the variants")


def _records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records", required=True, nargs="+", type=Path, help="the records; the newest dates the report"
    )


def _devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", required=True, nargs="+", help="their PyTorch names, such as cpu cuda")


def _machines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machines", required=True, nargs="+", type=Path, help="folders of the machines' results, in their order"
    )


def _pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--machine", default="", help="id of the machine (default: this one)")
    parser.add_argument("--out", type=Path, help="the file to write (default: results/published/<machine>.tar.xz)")
    parser.add_argument(
        "--traces",
        action="store_true",
        help="with the profiler's traces, to go on measuring from it; by default not into results/published",
    )


def _trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="FILE-or-FOLDER", help="a trace, or a folder with one per rank")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the tables as CSV")


def _two_traces(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="A", help="the trace to start from, or a folder with one per rank")
    parser.add_argument("b", type=Path, metavar="B", help="the trace to compare with it, or a folder likewise")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the tables of changes as CSV")


def _table_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", default="", metavar="TABLE", help="its name (default: every table)")


def _numbers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="show the keys that hold these, such as unet speedup")
    parser.add_argument(
        "--folder", type=Path, default=Path("report"), help="folder of the report (default: %(default)s)"
    )


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder to write, new or empty")
    parser.add_argument("--arxiv", action="store_true", help="write DIR.tar.gz instead, all files in one folder")
    parser.add_argument(
        "--figures",
        choices=("pdf", "pgf"),
        default="pdf",
        help="their format (default: %(default)s); pgf must have been drawn, by gpu-report draw-figures --format pgf",
    )


def _figure_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=("pdf", "pgf"),
        default="pdf",
        help="pgf lets a document set the words in its own fonts, and lies beside the PDF files (default: %(default)s)",
    )


def _unpack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, help="the file that gpu-report pack wrote")
    parser.add_argument(
        "--machine-folder",
        type=Path,
        default=Path("results/machines"),
        help="folder that holds a folder for each machine (default: %(default)s)",
    )


_STUDY: Final = _text("--study", "title, experiments and machines of the study, each with its experiments, as JSON")
_FIGURES: Final = (_path("--figures", "folder for the figures"), _figure_format)
_MACHINE: Final = _text("--machine", "id of this machine")
_RUNS: Final = _path("--runs", "folder that holds a folder for each variant")
_RESULTS: Final = _path("--results", "folder of one machine's results")
_TABLES: Final = _path("--tables", "folder for the tables")
_EXPERIMENTS: Final = _text("--experiments", "the experiments as a JSON list")
_TODAY: Final = _text("--today", "digest of today's measuring code and today's protocol, as JSON")
_CALIBRATION: Final = _path("--calibration", "the calibration.json")
_PRICES: Final = _text("--prices", "the prices of the study, as JSON")
_COMPARISON: Final = _path("--comparison", "the comparison.csv")
_FINDINGS: Final = _path("--findings", "the findings.json")
_EVIDENCE: Final = _path("--evidence", "the findings.csv, with a row for each piece of evidence")
_RECORD: Final = _path("--record", "the record.json")
_TRACE: Final = _path("--trace", "folder of the variant's trace")

COMMANDS: Final = {
    "list": _Command(
        "overview:list_variants", "show every variant of the study and whether it is measured", _config_files
    ),
    "run": _Command(
        "measuring:run",
        "measure variants now, one after the other, with a progress bar",
        _variants_to_run,
        _config_files,
    ),
    "machine": _Command("overview:show_machine", "show this machine's id and the devices PyTorch finds"),
    "plan": _Command(
        "overview:show_plan", "say what `snakemake report/gpu_report.pdf` is about to measure", _config_files
    ),
    "machines": _Command("bundles:list_machines", "list the machines that a report can show"),
    "pack": _Command(
        "bundles:pack", "put a machine's records and tables into one file to publish or keep", _pack, _config_files
    ),
    "unpack": _Command("bundles:unpack", "check such a file and put what it holds in place", _unpack),
    "trace": _Command(
        "traces:trace", "say what a trace of PyTorch's profiler tells, whoever recorded it, and what to try", _trace
    ),
    "trace-diff": _Command("traces:trace_diff", "say what changed from one trace to another, per step", _two_traces),
    "columns": _Command("traces:columns", "list the tables and their columns with unit and meaning", _table_name),
    "numbers": _Command(
        "numbers:list_numbers", "list the numbers that a document can quote, with table and run", _numbers
    ),
    "export": _Command(
        "exporting:export", "copy sections, figures and numbers of the report for a thesis, Overleaf or arXiv", _export
    ),
    "headline": _Command(
        "document:show_headline",
        "print where the report is and its headline",
    ),
    "write-image-files": _Command(
        "measuring:write_image_files",
        "write the JPEG files that the image_files workload trains on",
        _count("--train-samples", "number of training images"),
        _count("--test-samples", "number of held-out images"),
        _count("--image-px", "width and height in pixels"),
        _path("--manifest", "the manifest.json, written last, in the folder of the images"),
    ),
    "calibrate": _Command(
        "calibrating:calibrate",
        "measure what the devices of this machine reach at most",
        _MACHINE,
        _devices,
        _CALIBRATION,
    ),
    "measure-variant": _Command(
        "measuring:measure_variant",
        "measure one variant and write its record and trace",
        _text("--measurement", "the measurement as JSON"),
        _MACHINE,
        _RECORD,
        _TRACE,
        _path("--memory", "folder of the variant's memory snapshot"),
    ),
    "tabulate-trace": _Command(
        "results:tabulate_trace", "turn a variant's trace into CSV tables", _RECORD, _TRACE, _TABLES
    ),
    "tabulate-experiment": _Command(
        "results:tabulate_experiment",
        "turn an experiment's records into its table",
        _text("--experiment", "the experiment as JSON"),
        _TODAY,
        _PRICES,
        _RUNS,
        _path("--table", "the CSV file"),
    ),
    "tabulate-study": _Command(
        "results:tabulate_study",
        "turn all records and trace tables into the study's tables",
        _variants,
        _EXPERIMENTS,
        _TODAY,
        _PRICES,
        _RUNS,
        _CALIBRATION,
        _TABLES,
    ),
    "tabulate-calibration": _Command(
        "results:tabulate_calibration",
        "turn the calibration into its tables",
        _CALIBRATION,
        _TABLES,
    ),
    "compare-machines": _Command(
        "results:compare_machines",
        "compare the machines on the variants that several of them measured",
        _machines,
        _TODAY,
        _COMPARISON,
    ),
    "derive-comparison": _Command(
        "results:derive_comparison",
        "decide what follows from comparing the machines",
        _COMPARISON,
        _FINDINGS,
        _EVIDENCE,
    ),
    "derive-findings": _Command(
        "results:derive_findings",
        "decide from the tables what follows",
        _EXPERIMENTS,
        _RESULTS,
        _FINDINGS,
        _EVIDENCE,
    ),
    "draw-figures": _Command(
        "document:draw_figures",
        "draw every figure that the tables hold data for",
        _EXPERIMENTS,
        _RESULTS,
        *_FIGURES,
    ),
    "write-sections": _Command(
        "document:write_sections",
        "fill the report's templates",
        _STUDY,
        _machines,
        _COMPARISON,
        _path("--comparison-findings", "the findings.json about machines side by side"),
        _path("--folder", "folder of the report: templates, figures, and what is written"),
    ),
    "draw-comparison": _Command(
        "document:draw_comparison",
        "draw the figures that show machines side by side",
        _COMPARISON,
        *_FIGURES,
    ),
    "draw-study": _Command(
        "document:draw_study",
        "draw the networks that were trained, and the workflow",
        _STUDY,
        _machines,
        _COMPARISON,
        *_FIGURES,
    ),
    "compile-report": _Command(
        "document:compile_report",
        "compile the report with the TeX engine at hand",
        _records,
        _path("--folder", "folder of the report"),
    ),
    "write-tensorboard-logs": _Command(
        "results:write_tensorboard_logs",
        "write the log directory that `tensorboard --logdir` shows",
        _variants,
        _RUNS,
        _path("--logs", "the log directory"),
    ),
}

if __name__ == "__main__":
    sys.exit(main())
