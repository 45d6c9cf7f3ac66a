"""Reports that are compiled once for all tests that only read them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_report.writing.latex import ENGINES, compile_report
from tests.made_once import made_once
from tests.report.synthetic import DATED, write_project

Compiled = Callable[..., Path]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The report on a machine with these devices, or on "two machines", by the engine; none may
    change its folder.
    """

    def compiled(*shown: str, engine: str = "pdflatex") -> Path:
        def make(folder: Path) -> None:
            engines = {each.name: each for each in ENGINES}
            compile_report(write_project(folder, *shown), dated=DATED, engine=engines[engine])

        project = made_once(
            tmp_path_factory,
            "-".join(("report_on", *shown, engine)).replace(" ", "_").replace(":", ""),
            make,
        )
        return project / "report/gpu_report.pdf"

    return compiled
