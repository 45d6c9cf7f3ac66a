"""What is asked of models in parts."""

import math

import pytest

from gpu_report.answers.questions import derive_findings
from tests.unit.answers.editing import Case, Edit, cases, edited, figure, one
from tests.unit.answers.shared import SharedCase, base_of_shared, split

PIPELINE, SHARDED = (
    f"model_split_{name}/unet_128px_cuda_1_part_on_2" for name in ("pipeline", "sharded")
)


def over_one(*names: str, value: float, spread: float = 0.01) -> list[Edit]:
    return [split(name, **figure("speedup_over_one", value, spread)) for name in names]


def saved(value: float, spread: float) -> list[Edit]:
    return [split("fsdp2", **figure("memory_saved_share", value, spread))]


PIPELINES = ("b64-w0-fp32-e3-pipeline2", "b64a2-w0-fp32-e3-pipeline2", "b64a4-w0-fp32-e3-pipeline2")
FASTER_IN_PARTS = [*over_one(*PIPELINES[:1], value=0.7), *over_one(*PIPELINES[1:], value=1.2)]

CASES: list[Case] = [
    *cases(
        PIPELINE,
        kind=SharedCase,
        yes=FASTER_IN_PARTS,
        no=over_one(*PIPELINES, value=0.9),
        unresolved=over_one(*PIPELINES, value=1.0),
        missing=over_one(*PIPELINES, value=math.nan),
    ),
    *cases(
        SHARDED,
        kind=SharedCase,
        yes=saved(0.4, 0.01),
        no=saved(0.05, 0.01),
        unresolved=saved(0.1, 0.01),
        missing=[split("fsdp2", memory_saved_share=math.nan)],
    ),
]


@pytest.mark.parametrize("name", ["ddp_options", "model_split"])
def test_what_shares_a_cpu_answers_nothing(name: str) -> None:
    study, tables = base_of_shared()
    on_cpu = edited(tables, Edit(table=name, where={"workload": "unet"}, cells={"device": "cpu"}))

    found = derive_findings(on_cpu, study.experiments)

    assert [each for each in derive_findings(tables, study.experiments) if each.experiment == name]
    assert not [each for each in found if each.experiment == name]


def test_what_a_pipeline_waits_is_no_exchange_that_a_backward_pass_could_hide() -> None:
    study, tables = base_of_shared()
    exchanging = Edit(table="step_shares", where={}, cells={"communication_share": 0.5})
    advised = Edit(table="trace_advice", where={}, cells={"rule": "communication", "value": 0.5})

    found = derive_findings(edited(edited(tables, exchanging), advised), study.experiments)

    variants = {each.variant for each in one(found, "trace_communication").evidence}
    assert {name.rpartition("-")[2] for name in variants} & {"ddp2", "fsdp2"}
    assert not [name for name in variants if "pipeline2" in name or "split2" in name]
