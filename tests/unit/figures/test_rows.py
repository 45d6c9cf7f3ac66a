import numpy as np
import yaml

from gpu_report.figures import palette
from tests.factories import CONFIG, make_record, make_records, make_tables
from tests.unit.figures.drawn import specs_by_name, study_of


def test_points_are_in_their_rows_and_doubted_ones_alone_are_hollow() -> None:
    more = {"workload": ["resnet18", "transformer"], "batch_size": 64, "epochs": 3}
    device = yaml.safe_load(CONFIG.read_text("utf-8"))["experiments"]["device"]
    asked = study_of(device={**device, "grid": [*device["grid"], more]})
    study = asked.restricted_to({one.slug for one in asked.variants if one.precision == "fp32"})
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
        (speedup, position): "white" if "lstm" in variant else palette.BLUE
        for position, (variant, speedup) in enumerate(zip(spec.variants, speedups, strict=True))
    }
    assert points == expected
