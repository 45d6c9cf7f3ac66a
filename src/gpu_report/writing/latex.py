"""From LaTeX text to the PDF: the same records give the same bytes, and a PDF is whole or not
there.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gpu_report.errors import FileWriteError, ReportError
from gpu_report.glossary import Row

DOCUMENT: Final = "gpu_report"
_BUILD_FOLDER: Final = Path("build")
_PROJECT: Final = "project"
_ERROR: Final = re.compile(r"^(?P<place>[^\s:!][^:\n]*:\d+): (?P<message>.+)$", re.MULTILINE)
_BARE_ERROR: Final = re.compile(r"^! (?P<message>.+)$", re.MULTILINE)
_ERROR_CONTEXT: Final = re.compile(r"^l\.\d+ (?P<read>.*)$", re.MULTILINE)
DEBIAN_PACKAGES: Final = (
    *(
        "latexmk",
        "texlive-latex-recommended",
        "texlive-fonts-recommended",
        "texlive-science",
        "lmodern",
    ),
)
"""The smallest set that holds what gpu_report.sty and gpu_report.tex.j2 load."""

_INSTALL: Final = (
    ("Debian or Ubuntu", f"sudo apt-get install {' '.join(DEBIAN_PACKAGES)}"),
    (
        "Fedora",
        "sudo dnf install latexmk texlive-collection-latexrecommended "
        "texlive-collection-fontsrecommended texlive-siunitx",
    ),
    ("macOS", "brew install tectonic"),
    ("conda", "conda install --channel conda-forge tectonic"),
)
_MOST_RUNS: Final = 3
_RERUN: Final = "Rerun to get cross-references right"
"""What LaTeX says in its log where the pages of the list of contents may be old. latexmk sees a
change of a file by its size and whole seconds, so that one from page 3 to 4 in a second is missed.
"""
_LATEXMK_OPTIONS: Final = (
    "-norc",  # a person's own latexmkrc would decide otherwise
    "-interaction=nonstopmode",
    "-halt-on-error",
    "-file-line-error",
    "-no-shell-escape",
)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One way from a .tex file to a PDF; `programs` must all be on PATH."""

    name: str
    programs: tuple[str, ...]
    arguments: tuple[str, ...]

    def command(self, document: str, *, output_folder: Path) -> list[str]:
        """The command line that writes `output_folder/<document>.pdf`, to be run in the document's
        folder.
        """
        option = "--outdir" if self.programs[0] == "tectonic" else "-outdir"
        return [self.programs[0], *self.arguments, f"{option}={output_folder}", f"{document}.tex"]


ENGINES: Final = (
    Engine(
        name="pdflatex", programs=("latexmk", "pdflatex"), arguments=("-pdf", *_LATEXMK_OPTIONS)
    ),
    Engine(
        name="lualatex", programs=("latexmk", "lualatex"), arguments=("-pdflua", *_LATEXMK_OPTIONS)
    ),
    Engine(
        name="tectonic",
        programs=("tectonic",),
        arguments=("--keep-logs", "--keep-intermediates", "-Z", "deterministic-mode"),
    ),
)


def find_engine() -> Engine:
    """The first engine that is installed.

    Raises:
        ReportError: none is.
    """
    for engine in ENGINES:
        if all(map(shutil.which, engine.programs)):
            return engine
    commands = "; ".join(f"{system}: {command}" for system, command in _INSTALL)
    raise ReportError(
        "no TeX engine on PATH (latexmk with pdflatex or lualatex, or tectonic); install one with "
        f"the line for your system: {commands}"
    )


def newest_measurement(variants: Iterable[Row]) -> datetime:
    """When the newest of these rows of VARIANTS was measured: the document's date, whenever it is
    built.
    """
    return max(datetime.fromisoformat(row["measured_at"]) for row in variants)


def compile_report(
    folder: Path, *, dated: datetime, engine: Engine | None = None, pdf: Path | None = None
) -> Path:
    """Make a PDF from `gpu_report.tex` in the folder; an older PDF stays until the new one is
    whole.

    Args:
        folder: Where the text, its sections, figures and package lie; the log stays in its `build`
            folder.
        dated: The date of the document, see `newest_measurement`.
        engine: The first one installed where None.
        pdf: The PDF, in a folder of the project, from which its links lead to data;
            `gpu_report.pdf` beside the text where None.

    Returns:
        The PDF.

    Raises:
        ReportError: no TeX engine is installed.
        ReportError: LaTeX stopped.
        FileWriteError: the build folder or the PDF cannot be written.
    """
    engine = engine or find_engine()
    pdf = pdf or folder / f"{DOCUMENT}.pdf"
    build = folder / _BUILD_FOLDER
    try:
        if build.exists():
            shutil.rmtree(build)
        build.mkdir(parents=True)
        # TeX may read nothing above the report's folder, and yet see whether data are there to
        # which it links.
        (build / _PROJECT).symlink_to(pdf.parent.resolve().parent, target_is_directory=True)
    except OSError as error:
        raise FileWriteError(
            f"cannot empty {build}: {error.strerror}; remove it and run the same again"
        ) from error
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(int(dated.timestamp())),
        "FORCE_SOURCE_DATE": "1",
        "TZ": "UTC",
        # No file outside of this folder and TeX's own is read, whatever a title or a name would
        # have TeX do; tectonic has no such setting.
        "openin_any": "p",
        "max_print_line": "100000",  # the log's lines are not broken, so that they can be read back
        "error_line": "254",
        "half_error_line": "238",
    }
    # BibTeX writes the list before LaTeX first runs, which then needs two passes instead of three.
    # It reads the citations that a pass of LaTeX noted; the text has them too. If LaTeX then notes
    # others, latexmk runs BibTeX again.
    document = _read(folder / f"{DOCUMENT}.tex")
    names = ",".join(re.findall(r"(?:sections/|sections\{)([^}]+)", document)).split(",")
    text = "".join(_read(folder / "sections" / f"{name}.tex") for name in names)
    cited = [f"\\citation{key}\n" for key in re.findall(r"\\gpurepcite(\{.+?\})", text)]
    if cited and shutil.which("bibtex"):
        noted = _BUILD_FOLDER / f"{DOCUMENT}.aux"
        (folder / noted).write_text(
            "".join([*cited, "\\bibstyle{unsrtnat}\n\\bibdata{references}\n"]), "utf-8"
        )
        subprocess.run(
            ["bibtex", noted], cwd=folder, env=environment, capture_output=True, check=False
        )
    finished, log = _typeset(engine, folder, environment)
    # A copy or a search of the folder would follow it for ever.
    (folder / _BUILD_FOLDER / _PROJECT).unlink(missing_ok=True)
    built = folder / _BUILD_FOLDER / f"{DOCUMENT}.pdf"
    if finished.returncode != 0 or not built.exists():
        last_line = (finished.stdout.strip().splitlines() or ["no output"])[-1]
        ending = f"{finished.args[0]} ended with status {finished.returncode} ({last_line})"
        reason = first_error(log) or f"{DOCUMENT}.tex: {ending}"
        raise ReportError(f"{folder / reason}; fix the template it came from")
    try:
        built.replace(pdf)
    except OSError as error:
        raise FileWriteError(
            f"cannot write {pdf}: {error.strerror}; allow writing there, then try again"
        ) from error
    return pdf


def _typeset(
    engine: Engine, folder: Path, environment: Mapping[str, str]
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the engine, and again while LaTeX asks for it; the last run and its log."""
    command = engine.command(DOCUMENT, output_folder=_BUILD_FOLDER)
    for _ in range(_MOST_RUNS):
        finished = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        log = _read(folder / _BUILD_FOLDER / f"{DOCUMENT}.log")
        if finished.returncode != 0 or engine.programs[0] != "latexmk" or _RERUN not in log:
            break
        command = [command[0], "-g", *command[1:]]
    return finished, log


def _read(path: Path) -> str:
    return path.read_text("utf-8", errors="replace") if path.exists() else ""


def first_error(log: str) -> str:
    """The first error as `file:line: message (what was being read)`; empty where the log holds
    none.
    """
    match = _ERROR.search(log)
    if match is None:
        bare = _BARE_ERROR.search(log)
        return bare["message"] if bare else ""
    context = _ERROR_CONTEXT.search(log, match.end())
    read = context["read"].strip()[-80:] if context else ""
    message = match["message"].rstrip(".")
    return f"{match['place'].removeprefix('./')}: {message}" + (f" at {read}" if read else "")
