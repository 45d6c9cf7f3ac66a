"""The section on several GPUs says what was measured, and nothing of GPUs where ranks
shared a CPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any

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
