from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.style import figure_bytes
from tests.factories import SCALING, make_records, make_tables, with_tables
from tests.unit.figures.drawn import draw_named, specs_by_name, study_of, texts_of

EAGER, *_, OPTIMIZED = SCALING["grid"]


def specs_of_rows(*rows: Mapping[str, Any]) -> dict[str, FigureSpec]:
    """The figures of an experiment with these rows."""
    study = study_of(scaling={**SCALING, "grid": list(rows)})
    return specs_by_name(make_tables(study, make_records(study, processes=4)), study)


def points_of(axes: Axes) -> list[tuple[float, float]]:
    drawn = [container for container in axes.containers if isinstance(container, ErrorbarContainer)]
    ends = [
        (np.asarray(each.lines[0].get_xdata()), np.asarray(each.lines[0].get_ydata()))
        for each in drawn
    ]
    return [(float(x.item()), float(y.item())) for x, y in ends]


@pytest.mark.parametrize("devices", [(2,), (2, 4, 8)])
def test_each_configuration_has_a_line_with_a_point_per_number_of_devices(
    devices: tuple[int, ...],
) -> None:
    shared = [f"ddp{count}" for count in devices]
    spec = specs_of_rows(
        *({**row, "parallelism": ["single", *shared]} for row in (EAGER, OPTIMIZED))
    )["scaling_scaling"]

    figure = spec.draw()

    efficiencies, ranks = figure.axes
    texts = [tick.get_text() for tick in efficiencies.get_yticklabels()]
    rows = [next((name for name in ("fp32", "bf16") if name in text), "") for text in texts]
    for precision, share in (("fp32", 0.96), ("bf16", 0.922)):
        beside = [(x, y) for x, y in points_of(efficiencies) if rows[round(y)] == precision]
        assert len({y for _, y in beside}) == len(devices), "no point hides another"
        assert all(abs(y - rows.index(precision)) < 0.4 for _, y in beside), (
            "each is nearest to its own row"
        )
        assert beside[0][0] == pytest.approx(share, abs=0.001)
    assert rows.index("fp32") < rows.index("bf16"), "long steps come first"
    assert {f"{count} GPUs" for count in devices} <= set(texts_of(figure).split("\n"))
    assert ranks.get_title(loc="left") == "Step of each rank"
    assert len(spec.variants) == 2 * len(devices)
    assert figure_bytes(figure).startswith(b"%PDF")


def parts_of(figure: Figure) -> list[list[float]]:
    """Of each rank in order, the heights of the parts of its bar."""
    parts = [[float(bar.get_height()) for bar in part] for part in figure.axes[-1].containers]
    return [list(of_rank) for of_rank in zip(*parts, strict=True)]


def test_the_step_of_each_rank_is_shared_out_among_parts_that_fill_it() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study, make_records(study))

    first, second = parts_of(draw_named("scaling_scaling", tables, study))

    # Of 10 ms the ranks compute 7 and 7.2, of which 1.5 and 1.6 while they communicate, and 1 and
    # 0.9 are exposed.
    assert first == pytest.approx([55, 15, 10, 20])
    assert second == pytest.approx([56, 16, 9, 19])


def test_a_slow_rank_is_marked_in_the_figure_and_named_in_its_description() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study, make_records(study))
    slow = with_tables(tables, ranks=tables.ranks.assign(is_slow=tables.ranks["rank"] == 1))
    spec = specs_by_name(slow, study)["scaling_scaling"]

    assert texts_of(spec.draw()).split("\n").count("slow") == 1
    assert "Slow ranks: rank 1 of U-Net 64px." in spec.alt


def test_ranks_without_a_reliable_trace_have_no_bars() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study, make_records(study))
    spec = specs_by_name(with_tables(tables, ranks=tables.ranks.iloc[:0]), study)["scaling_scaling"]

    assert len(spec.draw().axes) == 1
    assert "ranks" not in spec.alt


def test_ranks_that_share_a_cpu_are_not_drawn() -> None:
    on_cpu = {"device": "cpu", "needs_accelerator": False, "parallelism": ["single", "ddp2"]}

    assert not [name for name in specs_of_rows({**EAGER, **on_cpu}) if name.startswith("scaling")]


def test_unlike_numbers_of_samples_per_gpu_have_rows_with_the_step_of_one_process() -> None:
    batches = [
        {**EAGER, "batch_per_process": batch, "parallelism": ["single", "ddp2"]}
        for batch in (8, 32)
    ]

    axes, *_ = specs_of_rows(*batches)["scaling_scaling"].draw().axes

    assert len({round(y) for _, y in points_of(axes)}) == 2
    assert len([text for text in axes.texts if text.get_text().endswith(" ms")]) == 2
