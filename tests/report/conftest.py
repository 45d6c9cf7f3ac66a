"""Reports that are compiled once for all tests that only read them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_report.writing.engines import find_engine
from gpu_report.writing.latex import CompiledReport, compile_report
from tests.made_once import made_once
from tests.report.synthetic import DATED, write_project

Compiled = Callable[..., CompiledReport]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The report on a machine with these devices, or on "two machines", by the engine; none may
    change its folder.
    """

    def compiled(*shown: str, engine: str = "pdflatex") -> CompiledReport:
        def make(folder: Path) -> None:
            made = compile_report(
                write_project(folder, *shown), dated=DATED, engine=find_engine(engine)
            )
            (folder / "problems.json").write_text(json.dumps(made.problems), encoding="utf-8")

        project = made_once(
            tmp_path_factory,
            "-".join(("report_on", *shown, engine)).replace(" ", "_").replace(":", ""),
            make,
        )
        problems = json.loads((project / "problems.json").read_text("utf-8"))
        return CompiledReport(pdf=project / "report/gpu_report.pdf", problems=tuple(problems))

    return compiled
