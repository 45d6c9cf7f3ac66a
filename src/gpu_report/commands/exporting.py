"""The command that copies a built report into a folder or an archive, for a document elsewhere."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpu_report.errors import ReportError
from gpu_report.printing.terminal import say
from gpu_report.storage.files import replaced_folder, write_bytes_atomically, write_errors
from gpu_report.writing.export import as_flat_archive, as_folder, exported_files, lines_to_paste

REPORT: Final = Path("report")
"""The folder of the templates and of the report that is made of them."""

_ARCHIVE_SUFFIX: Final = ".tar.gz"


def export(arguments: Namespace) -> None:
    """Write the sections, their numbers, floats and figures, and say what to paste where."""
    files = exported_files(REPORT, figure_format=arguments.figures)
    if arguments.arxiv:
        asked = arguments.folder
        target = (
            asked
            if asked.name.endswith(_ARCHIVE_SUFFIX)
            else asked.with_name(asked.name + _ARCHIVE_SUFFIX)
        )
        if target.exists():
            raise ReportError(f"{target} exists already; remove it or name another")
        write_bytes_atomically(target, as_flat_archive(files, figure_format=arguments.figures))
        say(f"{target}: {len(files) + 1} files for arXiv; main.tex compiles with pdflatex")
        return
    name = arguments.folder.resolve().name
    _write_folder(arguments.folder, as_folder(files, name=name, figure_format=arguments.figures))
    lines = lines_to_paste(name, figure_format=arguments.figures)
    say(f"{arguments.folder}: {len(files) + 2} files; in a document beside it:\n{lines.rstrip()}")


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files or none; the folder must be new or empty, so that nothing in it is mistaken
    for a part of it.
    """
    if folder.is_file():
        raise ReportError(f"{folder} is a file; name a folder")
    with write_errors(folder):
        if folder.exists() and any(folder.iterdir()):
            raise ReportError(f"{folder} exists and is not empty; remove it or name another folder")
        with replaced_folder(folder) as whole:
            for path, content in files.items():
                write_bytes_atomically(whole / path, content)
