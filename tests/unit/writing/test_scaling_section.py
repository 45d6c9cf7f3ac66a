"""The section on several GPUs says what was measured, and nothing of GPUs where ranks
shared a CPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpu_report.records.record import Record
from gpu_report.study.study import Study
from tests.factories import SCALING, make_records
from tests.report.synthetic import render_study, section_with_floats
from tests.unit.figures.drawn import study_of

ON_CPU: dict[str, Any] = {
    "device": "cpu",
    "needs_accelerator": False,
    "parallelism": ["single", "ddp1", "ddp2"],
}
NO_FORECAST = "no\nforecast"


def section(
    rows: Sequence[Mapping[str, Any]] = SCALING["grid"], *, records: Sequence[Record] | None = None
) -> str:
    return section_with_floats(render_study(study(rows), alone=True, records=records), "scaling")


def study(rows: Sequence[Mapping[str, Any]] = SCALING["grid"]) -> Study:
    return study_of(scaling={**SCALING, "grid": list(rows)})


def test_a_cpu_is_said_to_forecast_nothing_and_answers_nothing() -> None:
    text = section(
        [{**SCALING["grid"][0], **ON_CPU}, {**SCALING["grid"][1], **ON_CPU, "parallelism": "ddp2"}]
    )

    assert text.count(NO_FORECAST) == 1
    assert r"\gpurepfinding{" not in text
    assert r"\gpureppicture" not in text
    assert "scaling_use" not in text


def test_a_quality_that_is_no_better_than_chance_is_said_to_be_so_below_the_table() -> None:
    guessing = make_records(study(), quality=0.2)

    assert "no better than chance" in " ".join(section(records=guessing).split())
    assert "no better than chance" not in " ".join(section().split())


@pytest.mark.parametrize(
    ("setting", "shown", "unsaid"),
    [
        (
            "accumulate2",
            ("scaling_efficiency.csv", "accumulation in 2 parts", "micro-batches"),
            ("Exposed", "bound", "communication.csv", "views"),
        ),
        ("nocomm", ("Exposed", "The bound sends", "communication.csv"), ("accumulation", "views")),
    ],
)
def test_the_settings_of_ddp_are_explained_as_far_as_they_were_measured(
    setting: str, shown: Sequence[str], unsaid: Sequence[str]
) -> None:
    grid = {**SCALING["grid"][0], "parallelism": "ddp2", "optimization": ["none", setting]}
    asked = {**SCALING, "axis": "optimization", "baseline": "none", "grid": [grid]}

    files = render_study(study_of(ddp_options=asked), alone=True)

    text = section_with_floats(files, "ddp_options").replace(r"\gpurepbreak{}", "")
    text = text.replace("\\_", "_")
    assert [each for each in shown if each not in text] == []
    assert [each for each in unsaid if each in text] == []
