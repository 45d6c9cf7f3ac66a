"""What is asked of DistributedDataParallel's settings and of models in parts."""

import math

import pytest

from gpu_report.findings.rules import derive_findings, scaling
from gpu_report.findings.scope import DDP_OPTIONS
from tests.unit.findings.editing import Case, Edit, cases, edited, figure, one
from tests.unit.findings.shared import (
    DEFAULTS,
    PARTS,
    SETTINGS,
    SharedCase,
    base_of_shared,
    setting,
    split,
)

RULES = (
    *(rule for rule in scaling.RULES if rule.about == DDP_OPTIONS),
    *scaling.MODEL_SPLIT_RULES,
)
LOST = {"status": "oom", "reason": "out of memory"}
HIDDEN, SETTING, SEARCH, WORTH = (
    f"ddp_options_{name}/unet_128px_cuda"
    for name in ("hidden", "setting", "search", "accumulation")
)
NAIVE, PIPELINE, SHARDED = (
    f"model_split_{name}/unet_128px_cuda_1_part_on_2" for name in ("naive", "pipeline", "sharded")
)
AT_DEFAULTS = f"unet-128px-cuda-b32-w0-fp32-e3-ddp2-{DEFAULTS}"
IN_PARTS = [f"{part}+{DEFAULTS}" for part in PARTS]


def exposed(value: float, spread: float) -> list[Edit]:
    return [
        Edit(
            table="communication",
            where={"variant": AT_DEFAULTS},
            cells=figure("exposed_share", value, spread),
        )
    ]


def speedups(value: float, spread: float = 0.01) -> list[Edit]:
    return [setting(name, **figure("speedup", value, spread)) for name in SETTINGS]


def peaks(value: float, spread: float = 1.0) -> list[Edit]:
    whole = setting(DEFAULTS, **figure("memory_peak_mib", 1000.0, 1.0))
    return [
        whole,
        *(setting(name, **figure("memory_peak_mib", value, spread)) for name in IN_PARTS),
    ]


def over_one(*names: str, value: float, spread: float = 0.01) -> list[Edit]:
    return [split(name, **figure("speedup_over_one", value, spread)) for name in names]


def saved(value: float, spread: float) -> list[Edit]:
    return [split("fsdp2", **figure("memory_saved_share", value, spread))]


def searching(value: float, spread: float = 0.1) -> list[Edit]:
    rates = {"none": 100.0, "unused": value}
    return [
        setting(name, **figure("throughput_per_s", rate, spread)) for name, rate in rates.items()
    ]


PIPELINES = ("b64-w0-fp32-e3-pipeline2", "b64a2-w0-fp32-e3-pipeline2", "b64a4-w0-fp32-e3-pipeline2")
FASTER_IN_PARTS = [*over_one(*PIPELINES[:1], value=0.7), *over_one(*PIPELINES[1:], value=1.2)]

CASES: list[Case] = [
    *cases(
        HIDDEN,
        kind=SharedCase,
        yes=exposed(0.02, 0.01),
        no=exposed(0.09, 0.01),
        unresolved=exposed(0.05, 0.01),
        missing=[
            Edit(
                table="communication",
                where={"variant": AT_DEFAULTS},
                cells={"exposed_share": math.nan},
            )
        ],
    ),
    *cases(
        SETTING,
        kind=SharedCase,
        yes=speedups(1.02),
        no=speedups(0.9),
        unresolved=speedups(1.0),
        missing=[setting(name, **LOST) for name in SETTINGS],
    ),
    *cases(
        WORTH,
        kind=SharedCase,
        yes=peaks(600.0),
        no=peaks(990.0),
        unresolved=peaks(900.0, 50.0),
        missing=[setting(name, **LOST) for name in IN_PARTS],
    ),
    *cases(
        NAIVE,
        kind=SharedCase,
        yes=over_one("split2", value=1.1),
        no=over_one("split2", value=0.9),
        unresolved=over_one("split2", value=1.0),
        missing=over_one("split2", value=math.nan),
    ),
    *cases(
        PIPELINE,
        kind=SharedCase,
        yes=FASTER_IN_PARTS,
        no=over_one(*PIPELINES, value=0.9),
        unresolved=over_one(*PIPELINES, value=1.0),
        missing=over_one(*PIPELINES, value=math.nan),
    ),
    *cases(
        SEARCH,
        kind=SharedCase,
        yes=searching(90.0),
        no=searching(101.0),
        unresolved=searching(100.0),
        missing=[setting("unused", **LOST)],
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


@pytest.mark.parametrize("quicker", [1.5, 9.0])
def test_what_saves_memory_is_no_setting_for_speed(quicker: float) -> None:
    edits = [
        *speedups(1.02),
        *(setting(name, **figure("speedup", quicker)) for name in (*IN_PARTS, "none", "unused")),
    ]

    found = SharedCase(finding=SETTING, verdict="yes", edits=edits).derive()

    assert found.gain == 1.02
    assert "channels-last" not in found.statement


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
