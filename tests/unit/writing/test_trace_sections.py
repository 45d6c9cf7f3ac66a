from dataclasses import replace
from typing import Any

from gpu_report.tables.traces import ROWS_OF_PROFILE
from gpu_report.traces.idle import CAUSES
from tests.factories import make_study
from tests.report.synthetic import (
    render_devices,
    render_study,
    section_with_floats,
    tables_of,
)


def section(*devices: str, **tables: Any) -> str:
    """The chapter about the steps, with some of the tables changed."""
    study = make_study(devices=devices)
    changed = replace(tables_of(*devices), **tables)
    return section_with_floats(render_study(study, tables=changed), "trace").replace(
        r"\gpurepbreak{}", ""
    )


def test_without_an_accelerator_the_chapter_has_no_sentence_about_one() -> None:
    text = section("cpu")

    for absent in ("kernel", "memcpy", "driver", "idle", "launches"):
        assert absent not in text.lower()
    assert r"\emph{loader}" in text
    assert "tab:xeon-2c/step_shares" in text


def test_without_a_trace_the_chapter_says_so_and_nothing_else() -> None:
    tables = tables_of("cpu", "cuda")

    text = section(
        "cpu",
        "cuda",
        **{each.name: getattr(tables, each.name).iloc[:0] for each in ROWS_OF_PROFILE},
    )

    assert r"\begin{gpureptable}" not in text
    assert r"\begin{gpurepfigure}" not in text


def test_no_number_of_an_unreliable_step_is_printed() -> None:
    tables = tables_of("cpu", "cuda")
    text = section_with_floats(render_devices("cpu", "cuda"), "trace")

    unreliable = [
        line
        for line in text.split("\n")
        if line.lstrip().startswith("Bidirectional LSTM\\textsuperscript")
    ]

    assert (
        tables.step_shares[tables.step_shares["workload"] == "lstm"]["device_busy_share"]
        .isna()
        .all()
    )
    assert unreliable
    assert all("not reliable" in line and line.count("&") == 3 for line in unreliable)


def test_every_cause_of_a_gap_is_explained() -> None:
    text = section("cpu", "cuda")

    for cause in CAUSES:
        assert rf"\emph{{{cause.replace('isation', 'ization')}}}" in text


def test_a_chapter_about_the_cpu_alone_has_figures_whose_captions_are_about_nothing_else() -> None:
    text = section("cpu")

    assert "study_timeline" in text
    assert "numbers in the bars are per cent." in text
    for absent in ("accelerator", "streams"):
        assert absent not in text
