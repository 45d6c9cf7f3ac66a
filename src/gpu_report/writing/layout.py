"""Which files the report is made of, told without importing what writes them: the workflow asks at every start."""

from collections.abc import Sequence
from typing import Final

NUMBERS_CSV: Final = "numbers.csv"
SECTIONS_BEFORE: Final = ("summary", "machine", "workloads")
SECTIONS_AFTER: Final = (
    *("transfer", "efficiency", "energy", "convergence", "operations", "trace"),
    *("machines", "implementation", "discussion", "recommendations", "appendix"),
)
"""Sections before and after those of the experiments."""

HEADLINE_FILE: Final = "headline.txt"
FLOATS_FOLDER: Final = "floats"
"""Holds each table and figure in a file of its own: `tab/<name>.tex`, `fig/<name>.tex`."""
LISTED_SOURCE: Final = "measure/training.py"
"""The file that the implementation section lists, inside the package."""


def section_names(experiments: Sequence[str]) -> list[str]:
    """The sections in reading order: `sections/<name>.tex` is made from the template `sections/<name>.tex.j2`."""
    return [*SECTIONS_BEFORE, *experiments, *SECTIONS_AFTER]


def written_files(experiments: Sequence[str]) -> list[str]:
    """The paths, inside the report's folder, of every file that `render_report` gives, but for FLOATS_FOLDER."""
    sections = [f"sections/{name}.tex" for name in section_names(experiments)]
    return ["gpu_report.tex", "gpu_analysis_sections.tex", "numbers.tex", NUMBERS_CSV, HEADLINE_FILE, *sections]
