"""Which TeX engine makes the PDF, and how to get one where there is none."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_report.errors import ReportError

DEBIAN_PACKAGES: Final = (
    *(
        "latexmk",
        "texlive-latex-recommended",
        "texlive-fonts-recommended",
        "texlive-science",
        "lmodern",
    ),
)
"""The smallest set that holds what report/gpu_report.sty and report/gpu_report.tex.j2 load."""

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

    @property
    def is_installed(self) -> bool:
        """Whether every program it needs is found on PATH."""
        return all(shutil.which(program) for program in self.programs)

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


def find_engine(name: str = "") -> Engine:
    """The engine of that name, or without a name the first that is installed.

    Raises:
        ReportError: it is not installed, or there is no such engine.
    """
    wanted = [engine for engine in ENGINES if name in ("", engine.name)]
    if not wanted:
        raise ReportError(
            f"TeX engine {name!r} is unknown; use one of "
            f"{', '.join(engine.name for engine in ENGINES)}"
        )
    for engine in wanted:
        if engine.is_installed:
            return engine
    missing = name or "latexmk with pdflatex or lualatex, or tectonic"
    commands = "; ".join(f"{system}: {command}" for system, command in _INSTALL)
    raise ReportError(
        f"no TeX engine on PATH ({missing}); install one with the line for your system: {commands}"
    )
