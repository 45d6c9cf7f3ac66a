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


def experiment(parser: argparse.ArgumentParser) -> None:
    """The name of an experiment, or none."""
    parser.add_argument("--experiment", default="", help="only this experiment, apart from the others (default: all)")


def studies(parser: argparse.ArgumentParser) -> None:
    """The study files of several machines."""
    parser.add_argument(
        "--studies", required=True, nargs="+", type=Path, help="the study.json of each machine, in their order"
    )


def devices(parser: argparse.ArgumentParser) -> None:
    """Devices by their PyTorch names."""
    parser.add_argument("--devices", required=True, nargs="+", help="their PyTorch names, such as cpu cuda")


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


def unpack(parser: argparse.ArgumentParser) -> None:
    """The bundle, and where its machine goes."""
    parser.add_argument("bundle", type=Path, help="the file that gpu-report pack wrote")
    parser.add_argument(
        "--machine-folder",
        type=Path,
        default=Path("results/machines"),
        help="folder that holds a folder for each machine (default: %(default)s)",
    )


STUDY: Final = path("--study", "the study.json in the folder of one machine's results, which the command works on")
FIGURES: Final = (path("--figures", "folder for the figures"), figure_format)
MACHINE: Final = text("--machine", "id of this machine")
FOLDER: Final = path("--folder", "folder of the document: its text and figures")
TABLES: Final = path("--tables", "folder for the tables")
CALIBRATION: Final = path("--calibration", "the calibration.json")
COMPARISON: Final = path("--comparison", "the comparison.csv; its findings are beside it")
RECORD: Final = path("--record", "the record.json")
TRACE: Final = path("--trace", "folder of the variant's trace; its rich trace is in the folder rich_trace beside it")
