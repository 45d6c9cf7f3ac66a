from typing import Any

from gpu_report.tables.traces import ROWS_OF_PROFILE
from tests.factories import make_study, with_tables
from tests.report.synthetic import render_study, section_with_floats, tables_of


def section(*devices: str, **tables: Any) -> str:
    """The chapter about the steps, with some of the tables changed."""
    study = make_study(devices=devices)
    changed = with_tables(tables_of(*devices), **tables)
    return section_with_floats(render_study(study, tables=changed), "trace").replace(
        r"\gpurepbreak{}", ""
    )


def test_without_a_trace_the_chapter_says_so_and_nothing_else() -> None:
    tables = tables_of("cpu", "cuda")

    text = section(
        "cpu",
        "cuda",
        **{each.name: getattr(tables, each.name).iloc[:0] for each in ROWS_OF_PROFILE},
    )

    assert r"\begin{gpureptable}" not in text
    assert r"\begin{gpurepfigure}" not in text
