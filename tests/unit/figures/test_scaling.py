from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.style import figure_bytes
from tests.factories import SCALING, make_records, make_tables
from tests.unit.figures.drawn import specs_by_name, study_of, texts_of

EAGER, *_, OPTIMIZED = SCALING["grid"]


def specs_of_rows(*rows: Mapping[str, Any]) -> dict[str, FigureSpec]:
    """The figures of an experiment with these rows."""
    study = study_of(scaling={**SCALING, "grid": list(rows)})
    return specs_by_name(make_tables(study, make_records(study, processes=4)), study)


@pytest.mark.parametrize("devices", [(2,), (2, 4, 8)])
def test_each_number_of_devices_has_a_panel_with_both_configurations(devices: tuple[int, ...]) -> None:
    shared = [f"ddp{count}" for count in devices]
    spec = specs_of_rows(*({**row, "parallelism": ["single", *shared]} for row in (EAGER, OPTIMIZED)))[
        "scaling_scaling"
    ]

    figure = spec.draw()

    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"{count} GPUs" for count in devices]
    assert all({"fp32", "bf16"} <= {text.get_text() for text in axes.texts} for axes in figure.axes)
    assert "U-Net 64px" in texts_of(figure)
    assert len(spec.variants) == 2 * len(devices)
    assert figure_bytes(figure).startswith(b"%PDF")


def test_its_description_names_the_lowest_and_the_highest_efficiency() -> None:
    alt = specs_of_rows(*SCALING["grid"])["scaling_scaling"].alt

    assert "from 92.2 % (U-Net 64px, bf16" in alt
    assert "to 96.0 % (U-Net 64px, fp32" in alt


def test_it_takes_the_place_of_the_figures_by_row() -> None:
    assert [name for name in specs_of_rows(*SCALING["grid"]) if name.startswith("scaling")] == ["scaling_scaling"]


def test_one_configuration_alone_is_drawn_by_row() -> None:
    drawn = {*specs_of_rows(EAGER)}

    assert {"scaling_throughput"} <= drawn
    assert "scaling_scaling" not in drawn


def test_ranks_that_share_a_cpu_are_not_drawn() -> None:
    on_cpu = {"device": "cpu", "needs_accelerator": False, "parallelism": ["single", "ddp2"]}

    assert not [name for name in specs_of_rows({**EAGER, **on_cpu}) if name.startswith("scaling")]
