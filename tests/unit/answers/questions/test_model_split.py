"""What is asked of models in parts."""

import math

import pytest

from gpu_report.answers.questions import derive_findings
from tests.unit.answers.editing import Case, Edit, cases, edited, figure, one
from tests.unit.answers.shared import SharedCase, base_of_shared, split

PIPELINE = "model_split_pipeline/unet_128px_cuda_1_part_on_2"
SHARDED = "model_split_sharded/u_net_128px"


def over_one(*names: str, value: float, spread: float = 0.01) -> list[Edit]:
    return [split(name, **figure("speedup_over_one", value, spread)) for name in names]


def peaks(*, fsdp_mib: float, spread_mib: float = 10.0) -> list[Edit]:
    """The memory of FSDP2 beside 1000 MiB of DistributedDataParallel."""
    return [
        Edit(
            table="scaling_efficiency",
            where={"strategy": strategy, "workload": "unet"},
            cells=figure("memory_allocated_most_mib", mib, spread_mib),
        )
        for strategy, mib in (("ddp", 1000.0), ("fsdp", fsdp_mib))
    ]


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
        yes=peaks(fsdp_mib=600.0),
        no=peaks(fsdp_mib=950.0),
        unresolved=peaks(fsdp_mib=900.0),
    ),
]


def test_fsdp_saves_what_it_takes_less_than_ddp_whatever_one_process_takes() -> None:
    half_of_one = split("fsdp2", **figure("memory_saved_share", 0.5))
    edits = [*peaks(fsdp_mib=950.0, spread_mib=0.0), half_of_one]

    found = SharedCase(finding=SHARDED, verdict="no", edits=edits).derive()

    assert found.question.endswith(" for U-Net 128px (32 per GPU)?")
    assert "saved less than 10 %: 5.0 % at" in found.statement
    assert "the throughput (uncompiled fp32)." in found.statement


@pytest.mark.parametrize(("saved", "said"), [(0.6, "the least memory with m = 2"), (0.05, "")])
def test_a_pipeline_is_said_to_save_memory_only_where_it_does(saved: float, said: str) -> None:
    edits = [
        split(name, **figure("memory_saved_share", share))
        for name, share in zip(PIPELINES, (-0.1, saved, math.nan), strict=True)
    ]

    found = SharedCase(finding=PIPELINE, verdict="yes", edits=edits).derive()

    assert said in found.statement
    assert ("memory" in found.statement) == bool(said)


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
