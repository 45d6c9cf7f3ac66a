from dataclasses import replace
from typing import Any

from gpu_report.figures.declaration import Shown, Subject
from gpu_report.figures.stacked_bars import profiled_rows
from gpu_report.tables.trace_schema import TRACE_STUDY_TABLES
from gpu_report.traces.idle import CAUSES
from gpu_report.writing.machine_view import MachineView
from gpu_report.writing.trace_view import TraceView
from tests.factories import make_study
from tests.report.synthetic import (
    render_devices,
    render_study,
    results_on,
    section_with_floats,
    tables_of,
)


def trace_of(*devices: str, **tables: Any) -> TraceView:
    """What the traces of the default study say on a machine with these devices, some of its tables changed."""
    results = results_on(*devices)
    return MachineView(results=replace(results, tables=replace(results.tables, **tables))).trace


def section(*devices: str, **tables: Any) -> str:
    """The chapter about the steps, with some of the tables changed."""
    study = make_study(devices=devices)
    changed = replace(tables_of(*devices), **tables)
    return section_with_floats(render_study(study, tables=changed), "trace").replace(r"\gpurepbreak{}", "")


def test_the_table_of_steps_shows_the_same_variants_as_the_figure() -> None:
    view = trace_of("cpu", "cuda")

    in_figure = profiled_rows(Shown(rows=view.tables.variants, subject=Subject(), tables=view.tables))

    assert [row["variant"] for row in view.shown] == in_figure["variant"].tolist()


def test_memory_and_speedups_are_those_of_the_first_two_variants_that_have_them() -> None:
    view = trace_of("cpu", "cuda")

    for tables, frame in (
        (view.memory_tables(), view.tables.operation_memory),
        (view.speedups_tables(), view.tables.category_speedups),
    ):
        having = [row["variant"] for row in view.on_accelerators if row["variant"] in set(frame["variant"])][:2]
        shown = frame[frame["variant"].isin(having)].groupby("variant").head(3)
        assert sum(len(table.rows) for table in tables) == len(shown) > 0


def test_a_speedup_of_a_category_has_no_interval_of_the_configurations_speedup() -> None:
    (table, *_) = trace_of("cpu", "cuda").speedups_tables()

    found = [number.quantity for number in table.numbers if number.metric == "speedup"]
    assert found
    assert not any(quantity.has_interval for quantity in found)


def test_without_an_accelerator_memory_is_the_hosts_and_nothing_is_faster_there() -> None:
    view = trace_of("cpu")

    assert view.memory_tables()
    assert view.speedups_tables() == []


def test_tables_are_labelled_with_their_machine_and_name_their_csv_file() -> None:
    table = trace_of("cpu", "cuda").shares_table()

    assert table
    assert table.name == "xeon-2c/step_shares"
    assert table.source.endswith("/step_shares.csv")


def test_each_failed_check_is_told_below_the_variants_that_failed_it() -> None:
    view = trace_of("cpu", "cuda")

    table = view.shares_table()

    assert table
    assert "a profiled step took 2.40 times a timed one." in " ".join(map(str, table.notes))
    assert view.doubted == len({row["variant"] for _, row in view.tables.trace_doubts.iterrows()})


def test_without_an_accelerator_the_chapter_has_no_sentence_about_one() -> None:
    text = section("cpu")

    for absent in ("kernel", "memcpy", "driver", "idle", "launches"):
        assert absent not in text.lower()
    assert r"\emph{loader}" in text
    assert "tab:xeon-2c/step_shares" in text


def test_without_a_trace_the_chapter_says_so_and_nothing_else() -> None:
    tables = tables_of("cpu", "cuda")

    text = section("cpu", "cuda", **{each.name: getattr(tables, each.name).iloc[:0] for each in TRACE_STUDY_TABLES})

    assert r"\begin{gpureptable}" not in text
    assert r"\begin{gpurepfigure}" not in text


def test_no_number_of_an_unreliable_step_is_printed() -> None:
    tables = tables_of("cpu", "cuda")
    text = section_with_floats(render_devices("cpu", "cuda"), "trace")

    spoiled = [line for line in text.split("\n") if line.lstrip().startswith("Bidirectional LSTM\\textsuperscript")]

    assert tables.step_shares[tables.step_shares["workload"] == "lstm"]["device_busy_share"].isna().all()
    assert spoiled
    assert all("not reliable" in line and line.count("&") == 3 for line in spoiled)


def test_every_cause_of_a_gap_is_explained() -> None:
    text = section("cpu", "cuda")

    for cause in CAUSES:
        assert rf"\emph{{{cause.replace('isation', 'ization')}}}" in text


def test_kernels_are_listed_of_the_first_variants_that_have_any() -> None:
    kernels = tables_of("cpu", "cuda").top_kernels
    first, *others = [row["variant"] for row in trace_of("cpu", "cuda").on_accelerators]

    view = trace_of("cpu", "cuda", top_kernels=kernels[kernels["variant"] != first])

    (table,) = view.kernels_tables()
    headings = [str(row.heading).replace(r"\gpurepbreak{}", "") for row in table.rows if row.heading]
    assert [heading.rpartition(", ")[2].replace("\\_", "_") for heading in headings] == others[:2]


def test_a_chapter_about_the_cpu_alone_has_figures_whose_captions_tell_of_nothing_else() -> None:
    text = section("cpu")

    assert "study_timeline" in text
    assert "numbers in the bars are per cent." in text
    for absent in ("accelerator", "streams"):
        assert absent not in text
