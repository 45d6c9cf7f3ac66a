from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Annotation

from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.style import figure_bytes
from tests.factories import SCALING, make_records, make_tables
from tests.unit.figures.drawn import (
    draw_named,
    drawn,
    specs_by_name,
    study_and_tables,
    study_of,
    texts_of,
    with_failures,
)


def text_with(**changes: Any) -> str:
    return texts_of(
        drawn(
            "crossover_crossover",
            "crossover",
            crossovers=lambda table: table.iloc[:1].assign(**changes),
        )
    )


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("crosses", "crosses at 9.2 (7.5 to 12.0)"),
        ("accelerator always", "faster at every size"),
        ("cpu always", "slower at every size"),
        ("unclear", "no clear crossover"),
    ],
)
def test_the_crossover_is_reported_with_its_interval_or_why_there_is_none(
    verdict: str, words: str
) -> None:
    ends = {"batch_size": 9.25, "batch_size_low": 7.5, "batch_size_high": 12.0}
    missing = dict.fromkeys(ends, float("nan"))

    text = text_with(verdict=verdict, **(ends if verdict == "crosses" else missing))

    assert words in text
    assert ("crosses at" in text) == (verdict == "crosses")


def test_a_crossing_between_times_with_an_invalidating_flag_is_not_drawn() -> None:
    study, tables = study_and_tables("crossover")
    experiments = {
        name: frame.assign(marks="unsettled") for name, frame in tables.experiments.items()
    }
    found = specs_by_name(replace(tables, experiments=experiments), study)["crossover_crossover"]

    text = texts_of(found.draw())

    assert "crosses at" not in text
    assert "not resolved" in text


def test_batches_that_did_not_fit_are_named_where_their_throughput_would_be() -> None:
    unet = {"workload": "unet", "size": "128px", "batch_size": [4, 16, 64, 256, 1024], "epochs": 2}
    sizes = {"question": "How many?", "axis": "batch_size", "baseline": 4, "grid": [unet]}
    study = study_of(devices=("cuda",), sizes=sizes)
    records = with_failures(make_records(study, processes=1), b256="oom", b1024="oom")

    figure = draw_named("sizes_throughput", make_tables(study, records), study)

    reasons = [each for each in figure.axes[0].texts if "out of memory" in each.get_text()]
    assert [each.xy[0] for each in reasons if isinstance(each, Annotation)] == [256, 1024]


def test_a_speedup_of_a_few_rows_is_said_by_their_table() -> None:
    study = study_of("device")
    few = study.restricted_to({each.slug for each in study.variants if each.workload == "unet"})

    is_drawn = [
        "device_speedup" in specs_by_name(make_tables(asked, make_records(asked)), asked)
        for asked in (study, few)
    ]

    assert is_drawn == [True, False]


def test_a_crossover_needs_two_batch_sizes_of_one_model() -> None:
    study = study_of("device", "crossover")
    whole = make_tables(study, make_records(study))
    one = study.restricted_to(
        {each.slug for each in study.variants if each.batch_size in (16, 64, 4000)}
    )

    found = specs_by_name(whole, study)
    alone = specs_by_name(make_tables(one, make_records(one)), one)

    assert "crossover_crossover" in found
    assert "crossover_crossover" not in alone


EAGER, *_, OPTIMIZED = SCALING["grid"]


def specs_of_rows(*rows: Mapping[str, Any]) -> dict[str, FigureSpec]:
    """The figures of an experiment with these rows."""
    study = study_of(scaling={**SCALING, "grid": list(rows)})
    return specs_by_name(make_tables(study, make_records(study, processes=4)), study)


@pytest.mark.parametrize("devices", [(2,), (2, 4, 8)])
def test_weak_scaling_has_a_row_per_configuration_and_number_of_devices(
    devices: tuple[int, ...],
) -> None:
    shared = [f"ddp{count}" for count in devices]
    spec = specs_of_rows(
        *({**row, "parallelism": ["single", *shared]} for row in (EAGER, OPTIMIZED))
    )["scaling_scaling"]

    figure = spec.draw()

    (axes,) = figure.axes
    texts = [tick.get_text() for tick in axes.get_yticklabels()]
    points = {
        texts[round(y)]: x
        for line in axes.lines
        if line.get_marker() == "s"
        for x, y in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
    }
    for precision, share in (("fp32", 96), ("bf16", 92.2)):
        own = {text: x for text, x in points.items() if precision in text}
        assert [text.rpartition(", ")[2] for text in texts if text in own] == [
            f"{count} GPUs" for count in devices
        ]
        assert own[min(own)] == pytest.approx(share, abs=0.1)
    assert len(spec.variants) == 2 * len(devices)
    assert figure_bytes(figure).startswith(b"%PDF")


def test_ranks_that_share_a_cpu_are_not_drawn() -> None:
    on_cpu = {"device": "cpu", "needs_accelerator": False, "parallelism": ["single", "ddp2"]}

    assert not [name for name in specs_of_rows({**EAGER, **on_cpu}) if name.startswith("scaling")]


def test_unlike_numbers_of_samples_per_gpu_have_rows_of_their_own() -> None:
    batches = [
        {**EAGER, "batch_per_process": batch, "parallelism": ["single", "ddp2"]}
        for batch in (8, 32)
    ]

    (axes,) = specs_of_rows(*batches)["scaling_scaling"].draw().axes

    texts = [tick.get_text() for tick in axes.get_yticklabels()]
    assert ["8 per GPU" in texts[0], "32 per GPU" in texts[1]] == [True, True]
