import re
from dataclasses import replace

from tests.factories import make_study
from tests.report.synthetic import render_devices, render_machines, results_on

REPLAYED = 6
"""Variants of the default study that replay a captured step."""


def section_of(files: dict[str, str]) -> str:
    return re.sub(r"\s+", " ", files["sections/operations.tex"])


def test_variants_whose_traces_tell_no_operation_are_counted_with_the_place_of_the_reasons() -> None:
    text = section_of(render_devices("cpu", "cuda"))

    assert f"profiled variants {REPLAYED} are left out here" in text
    assert r"\gpurepword{Section}~\gpurepref{sec:xeon-2c/trace_doubts}" in text


def test_where_every_trace_tells_its_operations_nothing_is_said_to_be_left_out() -> None:
    assert "left out here" not in section_of(render_devices("cpu"))


def test_traces_that_tell_no_operation_at_all_are_no_lack_of_a_profile() -> None:
    results = results_on("cpu")
    empty = {name: getattr(results.tables, name).iloc[:0] for name in ("top_operations", "category_shares", "phases")}

    files = render_machines(
        make_study(devices=("cpu",)), [replace(results, tables=replace(results.tables, **empty), figures=())]
    )

    assert "with a trace that tells its operations" in section_of(files)
