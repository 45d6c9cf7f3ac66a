"""Which files the report is made of, known without importing what writes them: the workflow asks at every start."""

from collections.abc import Sequence
from typing import Final

NUMBERS_CSV: Final = "numbers.csv"
HEADLINE_FILE: Final = "headline.txt"
FLOATS_FOLDER: Final = "floats"
"""Holds each table and figure in a file of its own: `tab/<name>.tex`, `fig/<name>.tex`."""
LISTED_SOURCE: Final = "measure/training.py"
"""The file that the implementation section lists, inside the package."""

_OPENING: Final = ("summary", "machine", "workloads")
_CLOSING: Final = ("transfer", "efficiency", "trace", "energy", "recommendations")
"""Sections before and after those of the experiments."""
_EXPERIMENTS_IN_APPENDIX: Final = ("complexity", "models", "linear_regression", "linear_regression_size")
"""Experiments of the default study that a reader can do without at first."""
_APPENDIX: Final = ("machines", "networks", "convergence", "trace_details", "implementation")
_LAST: Final = "appendix"


def body_sections(experiments: Sequence[str], *, alone: bool = False) -> list[str]:
    """The sections of the body in reading order: `sections/<name>.tex` is made from `sections/<name>.tex.j2`.

    `alone` those of a document about experiments without the rest of the report.
    """
    if alone:
        return ["machine", *experiments]
    return [*_OPENING, *(name for name in experiments if name not in _EXPERIMENTS_IN_APPENDIX), *_CLOSING]


def appendix_sections(experiments: Sequence[str], *, alone: bool = False) -> list[str]:
    """The sections of the appendix in reading order; a document about experiments alone has none."""
    if alone:
        return []
    return [*_APPENDIX, *(name for name in experiments if name in _EXPERIMENTS_IN_APPENDIX), _LAST]


def section_names(experiments: Sequence[str], *, alone: bool = False) -> list[str]:
    """The sections of body and appendix in reading order."""
    return body_sections(experiments, alone=alone) + appendix_sections(experiments, alone=alone)


def written_files(experiments: Sequence[str], *, alone: bool = False) -> list[str]:
    """The paths, inside the report's folder, of every file that `render_report` gives, but for FLOATS_FOLDER."""
    sections = [f"sections/{name}.tex" for name in section_names(experiments, alone=alone)]
    of_the_report = [] if alone else ["gpu_analysis_sections.tex", HEADLINE_FILE]
    return ["gpu_report.tex", "numbers.tex", NUMBERS_CSV, *sections, *of_the_report]
