import numpy as np

from gpu_report.figures import style
from gpu_report.figures.labels import with_row_labels
from tests.factories import make_record, make_records, make_tables
from tests.unit.figures.drawn import specs_by_name, study_and_tables, study_of


def test_precisions_are_ordered_from_whole_to_short_whatever_their_order_in_the_configuration() -> (
    None
):
    row = {
        "workload": "lstm",
        "batch_size": 64,
        "epochs": 2,
        "precision": ["bf16", "tf32", "fp32", "fp16"],
    }
    entry = {
        "question": "?",
        "axis": "precision",
        "baseline": "fp32",
        "grid": [{**row, "device": "fastest"}],
    }
    study = study_of(precision=entry)
    table = make_tables(study, make_records(study, processes=1)).experiments["precision"]

    assert with_row_labels(table, axis="precision")["label"].tolist() == [
        "fp32",
        "tf32",
        "fp16",
        "bf16",
    ]


def test_a_shortened_twin_on_the_cpu_is_under_the_heading_of_the_whole_one() -> None:
    _, tables = study_and_tables("device")

    rows = with_row_labels(tables.experiments["device"], axis="device")

    assert rows.groupby("heading")["device"].apply(set).tolist() == [{"cpu", "cuda"}] * 3
    assert "Bidirectional LSTM" in set(rows["heading"])
    assert "CUDA, 5 whole epochs" in set(rows["label"])
    assert "CPU, 1\N{NO-BREAK SPACE}epoch of 1\N{NO-BREAK SPACE}step" in set(rows["label"])


def test_points_are_in_their_rows_and_doubted_ones_alone_are_hollow() -> None:
    study = study_of("device")
    records = [
        make_record(record.variant, foreign_cpu_share=0.5) if "lstm" in record.variant else record
        for record in make_records(study, processes=3)
    ]
    tables = make_tables(study, records)
    spec = specs_by_name(tables, study)["device_speedup"]

    (axes,) = spec.draw().axes

    markers = [line for line in axes.lines if line.get_marker() == "s"]
    points = {
        (x, y): line.get_markerfacecolor()
        for line in markers
        for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
    }
    speedups = tables.experiments["device"].set_index("variant")["speedup"].loc[list(spec.variants)]
    expected = {
        (speedup, position): "white" if "lstm" in variant else style.BLUE
        for position, (variant, speedup) in enumerate(zip(spec.variants, speedups, strict=True))
    }
    assert points == expected
