from dataclasses import replace

from gpu_report.figures import labels
from gpu_report.figures.style import figure_bytes
from tests.factories import make_records, make_tables
from tests.unit.figures.drawn import (
    draw_named,
    drawn_after_failures,
    specs_by_name,
    study_and_tables,
    study_of,
    texts_of,
)


def test_a_step_that_failed_says_so_where_its_number_would_be() -> None:
    figure = drawn_after_failures(
        "optimization_ladder", "optimization", graphs="failed", compile="failed"
    )

    assert texts_of(figure).count("failed") == 21, (
        "each step alone, cumulative from the first of them on, and all that are left out with them"
    )
    assert figure_bytes(figure).startswith(b"%PDF")


def test_a_ladder_through_precisions_is_drawn_under_its_model_with_each_step_left_out() -> None:
    row = {"workload": "lstm", "device": "fastest", "batch_size": 64, "epochs": 5}
    grid = [{**row, "ladder": ["bf16", "fused", "graphs"]}]
    asked = {"question": "?", "axis": "optimization", "baseline": "none", "grid": grid}
    study = study_of("device", through=asked)

    tables = make_tables(study, make_records(study, processes=4))
    frame = labels.with_row_labels(tables.experiments["through"], "optimization")

    assert frame.groupby(["heading", "label"], sort=False).size().index.tolist() == [
        ("Bidirectional LSTM, GPU", label)
        for label in (
            *("eager baseline", "bf16", "fused optimizer", "CUDA graphs"),
            *("bf16 + fused optimizer", "bf16 + fused optimizer + CUDA graphs"),
            *("fused optimizer + CUDA graphs", "bf16 + CUDA graphs"),
        )
    ]
    assert "the whole ladder without it" in texts_of(draw_named("through_ladder", tables, study))


def test_a_line_joins_cumulative_points_of_one_session_alone() -> None:
    study, tables = study_and_tables("optimization")
    together = tables.experiments["optimization"].assign(session=1)
    apart = together.assign(session=together.index)

    lines = [
        sum(line.get_linewidth() == 0.8 and line.get_linestyle() == "-" for line in axes.lines)
        for frame in (together, apart)
        for axes in draw_named(
            "optimization_ladder",
            replace(tables, experiments={**tables.experiments, "optimization": frame}),
            study,
        ).axes
    ]

    assert lines[0] > lines[1] == 0


def test_a_ladder_of_cumulative_steps_alone_is_said_by_its_table() -> None:
    row = {"workload": "lstm", "device": "fastest", "batch_size": 64, "epochs": 5}
    grid = [{**row, "optimization": ["none", "bf16", "bf16+fused", "bf16+fused+graphs"]}]
    asked = {"question": "?", "axis": "optimization", "baseline": "none", "grid": grid}
    study = study_of("optimization", path=asked)

    specs = specs_by_name(make_tables(study, make_records(study, processes=4)), study)

    assert ("optimization_ladder" in specs, "path_ladder" in specs) == (True, False)
