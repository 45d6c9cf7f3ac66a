"""The arguments of the commands: each a function that adds them to a command's parser."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

Add = Callable[[argparse.ArgumentParser], None]


def path(flag: str, help_text: str) -> Add:
    """A path that must be given."""
    return lambda parser: _add(parser, flag, help_text, type_=Path)


def text(flag: str, help_text: str) -> Add:
    """A text that must be given."""
    return lambda parser: _add(parser, flag, help_text, type_=str)


def count(flag: str, help_text: str) -> Add:
    """A whole number that must be given."""
    return lambda parser: _add(parser, flag, help_text, type_=int)


def _add(parser: argparse.ArgumentParser, flag: str, help_text: str, *, type_: Callable[[str], object]) -> None:
    parser.add_argument(flag, required=True, type=type_, help=help_text)


def config_files(parser: argparse.ArgumentParser) -> None:
    """The configuration, that of the study by default."""
    parser.add_argument(
        "--configfile",
        type=Path,
        default=Path("config/study.yaml"),
        help="the study's configuration (default: %(default)s)",
    )


def variants_to_run(parser: argparse.ArgumentParser) -> None:
    """Variants by name, or all that are missing."""
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help="a name, as gpu-report list shows it")
    parser.add_argument("--missing", action="store_true", help="also all that are not measured, or are out of date")
    parser.add_argument(
        "--nvtx",
        action="store_true",
        help="train once with NVTX ranges, for nsys profile --trace=cuda,nvtx; nothing is recorded",
    )


def variants(parser: argparse.ArgumentParser) -> None:
    """Names of variants."""
    parser.add_argument("--variants", required=True, nargs="+", help="names of the variants")


def records(parser: argparse.ArgumentParser) -> None:
    """Files of records."""
    parser.add_argument(
        "--records", required=True, nargs="+", type=Path, help="the records; the newest dates the report"
    )


def devices(parser: argparse.ArgumentParser) -> None:
    """Devices by their PyTorch names."""
    parser.add_argument("--devices", required=True, nargs="+", help="their PyTorch names, such as cpu cuda")


def machines(parser: argparse.ArgumentParser) -> None:
    """Folders of results, one for each machine."""
    parser.add_argument(
        "--machines", required=True, nargs="+", type=Path, help="folders of the machines' results, in their order"
    )


def pack(parser: argparse.ArgumentParser) -> None:
    """What to pack, and where to."""
    parser.add_argument("--machine", default="", help="id of the machine (default: this one)")
    parser.add_argument("--out", type=Path, help="the file to write (default: results/published/<machine>.tar.xz)")
    parser.add_argument(
        "--traces",
        action="store_true",
        help="with the profiler's traces, to go on measuring from it; by default not into results/published",
    )
    parser.add_argument(
        "--allow-dirty",
        action="store_true",
        help="also records that were measured by code that no commit holds; the bundle says how many",
    )


def trace(parser: argparse.ArgumentParser) -> None:
    """A trace, or a folder of them."""
    parser.add_argument("path", type=Path, metavar="FILE-or-FOLDER", help="a trace, or a folder with one per rank")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the tables as CSV")


def two_traces(parser: argparse.ArgumentParser) -> None:
    """Two traces, or two folders of them."""
    parser.add_argument("a", type=Path, metavar="A", help="the trace to start from, or a folder with one per rank")
    parser.add_argument("b", type=Path, metavar="B", help="the trace to compare with it, or a folder likewise")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the tables of changes as CSV")


def table_name(parser: argparse.ArgumentParser) -> None:
    """The name of a table, or none."""
    parser.add_argument("table", nargs="?", default="", metavar="TABLE", help="its name (default: every table)")


def numbers(parser: argparse.ArgumentParser) -> None:
    """Words that a key holds, and where the report lies."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="show the keys that hold these, such as unet speedup")
    parser.add_argument(
        "--folder", type=Path, default=Path("report"), help="folder of the report (default: %(default)s)"
    )


def export(parser: argparse.ArgumentParser) -> None:
    """Where to export to, and how."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder to write, new or empty")
    parser.add_argument("--arxiv", action="store_true", help="write DIR.tar.gz instead, all files in one folder")
    parser.add_argument(
        "--figures",
        choices=("pdf", "pgf"),
        default="pdf",
        help="their format (default: %(default)s); pgf must have been drawn, by snakemake --cores 4 figures_in_pgf",
    )


def figure_format(parser: argparse.ArgumentParser) -> None:
    """The format of figures."""
    parser.add_argument(
        "--format",
        choices=("pdf", "pgf"),
        default="pdf",
        help="pgf lets a document set the words in its own fonts, and lies beside the PDF files (default: %(default)s)",
    )


def sections_alone(parser: argparse.ArgumentParser) -> None:
    """Whether to leave out what no experiment's own section shows."""
    parser.add_argument("--alone", action="store_true", help="only those of the experiments' own sections")


def unpack(parser: argparse.ArgumentParser) -> None:
    """The bundle, and where its machine goes."""
    parser.add_argument("bundle", type=Path, help="the file that gpu-report pack wrote")
    parser.add_argument(
        "--machine-folder",
        type=Path,
        default=Path("results/machines"),
        help="folder that holds a folder for each machine (default: %(default)s)",
    )


STUDY: Final = text("--study", "title, experiments and machines of the study, each with its experiments, as JSON")
FIGURES: Final = (path("--figures", "folder for the figures"), figure_format)
MACHINE: Final = text("--machine", "id of this machine")
RUNS: Final = path("--runs", "folder that holds a folder for each variant")
RESULTS: Final = path("--results", "folder of one machine's results")
FOLDER: Final = path("--folder", "folder of the document: its text and figures")
TABLES: Final = path("--tables", "folder for the tables")
EXPERIMENTS: Final = text("--experiments", "the experiments as a JSON list")
TODAY: Final = text("--today", "digest of today's measuring code and today's protocol, as JSON")
CALIBRATION: Final = path("--calibration", "the calibration.json")
PRICES: Final = text("--prices", "the prices of the study, as JSON")
COMPARISON: Final = path("--comparison", "the comparison.csv")
FINDINGS: Final = path("--findings", "the findings.json")
EVIDENCE: Final = path("--evidence", "the findings.csv, with a row for each piece of evidence")
RECORD: Final = path("--record", "the record.json")
TRACE: Final = path("--trace", "folder of the variant's trace; its rich trace is in the folder rich_trace beside it")
