"""What is asked of GPUs that share a training, and of DistributedDataParallel's settings."""

import math

import pytest

from gpu_report.answers.questions import derive_findings
from tests.unit.answers.editing import Case, Edit, base, cases, edited, figure
from tests.unit.answers.shared import DEFAULTS, PARTS, SETTINGS, SharedCase, setting

MODEL = "u_net_64px"
FIGURES = "scaling_efficiency"
HIDDEN, SETTING = (f"ddp_options_{name}/unet_128px_cuda" for name in ("hidden", "setting"))
AT_DEFAULTS = f"unet-128px-cuda-b32-w0-fp32-e3-ddp2-{DEFAULTS}"
IN_PARTS = [f"{part}+{DEFAULTS}" for part in PARTS]
LOST = {"status": "oom", "reason": "out of memory"}


def shared(column: str, value: float, spread: float = 0.0, **where: object) -> Edit:
    return Edit(table=FIGURES, where=where, cells=figure(column, value, spread))


def of_two(
    value: float, spread: float = 0.0, *, precision: str = "bf16", column: str = "weak_efficiency"
) -> Edit:
    return shared(
        column,
        value,
        spread,
        strategy="ddp",
        devices=2,
        is_weak=True,
        precision=precision,
    )


def gained(value: float, spread: float, *, precision: str = "bf16") -> Edit:
    return of_two(value, spread, precision=precision, column="base_speedup")


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


CASES = [
    *cases(
        f"scaling_pays/{MODEL}",
        yes=[gained(1.1, 0.05)],
        no=[gained(0.9, 0.05)],
        unresolved=[gained(1.0, 0.05)],
    ),
    *cases(
        f"scaling_data_parallel/{MODEL}",
        yes=[
            shared("throughput_per_s", 990.0, 5.0, strategy="dp"),
            shared(
                "throughput_per_s", 1000.0, 5.0, strategy="ddp", batch_size=16, precision="fp32"
            ),
        ],
        no=(),
        unresolved=[
            shared("throughput_per_s", 950.0, 50.0, strategy="dp"),
            shared(
                "throughput_per_s", 1000.0, 50.0, strategy="ddp", batch_size=16, precision="fp32"
            ),
        ],
    ),
    *cases(
        f"scaling_strong/{MODEL}",
        yes=[shared("strong_speedup", 1.7, 0.1, is_strong=True)],
        no=[shared("strong_speedup", 0.9, 0.05, is_strong=True)],
        unresolved=[shared("strong_speedup", 1.0, 0.05, is_strong=True)],
    ),
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
]


def test_what_ranks_on_a_cpu_share_answers_nothing_about_speed() -> None:
    tables, study = base()
    for table in ("scaling", FIGURES):
        tables = edited(
            tables, Edit(table=table, where={"workload": "unet"}, cells={"device": "cpu"})
        )

    found = derive_findings(tables, study.experiments)

    assert not [finding for finding in found if finding.experiment == "scaling"]


def test_the_fastest_configuration_alone_says_how_much_faster_several_gpus_are() -> None:
    (case,) = cases(
        f"scaling_pays/{MODEL}", yes=[gained(0.8, 0.01, precision="fp32"), gained(1.9, 0.01)]
    )

    found = case.derive()

    assert found.verdict == "yes"
    faster, _, on_one_device = found.statement.partition(" With DistributedDataParallel on one ")
    assert "fp32" not in faster
    assert "times" not in on_one_device


@pytest.mark.parametrize(("throughput", "devices"), [(900.0, 2), (1000.0, 2), (1100.0, 4)])
def test_the_fastest_number_of_gpus_is_advised_and_of_two_alike_the_smaller_one(
    throughput: float, devices: int
) -> None:
    on_two = "unet-64px-cuda-b16-w0-bf16-e3-ddp2-resident+graphs"
    on_four = "unet-64px-cuda-b16-w0-fp32-e3-ddp2"
    edits = [
        Edit(table=FIGURES, where={"variant": on_four}, cells={"devices": 4}),
        Edit(table="scaling", where={"variant": on_four}, cells={"parallelism": "ddp4"}),
        *(
            shared(column, value, variant=name)
            for name, figures in (
                (on_two, {"throughput_per_s": 1000.0, "base_speedup": 1.8}),
                (on_four, {"throughput_per_s": throughput, "base_speedup": 1.2}),
            )
            for column, value in figures.items()
        ),
    ]

    found = Case(finding=f"scaling_pays/{MODEL}", verdict="yes", edits=edits).derive()

    assert f"on {devices} devices" in found.recommendation
    assert [each.label for each in found.evidence] == ["speedup over one GPU", "weak efficiency"]


def test_several_gpus_that_are_surely_faster_are_advised_with_the_efficiency_they_keep() -> None:
    (case,) = cases(f"scaling_pays/{MODEL}", yes=[gained(1.2, 0.1), of_two(0.6, 0.05)])

    found = case.derive()

    assert found.gain == 1.2
    assert "and 8 samples on each GPU: 60.0 % (55.0 to 65.0)" in found.recommendation
    assert "1.20 times (1.10 to 1.30) as fast with" in found.statement


@pytest.mark.parametrize("devices", [1, 3])
def test_what_ddp_costs_on_one_device_is_beside_what_several_lose(devices: int) -> None:
    edits = [
        gained(1.2, 0.1),
        shared("weak_efficiency", 0.9, 0.01, strategy="ddp", devices=2, precision="fp32"),
        shared("weak_efficiency", 0.8, 0.01, strategy="ddp", devices=1),
        Edit(table=FIGURES, where={"strategy": "ddp", "devices": 1}, cells={"devices": devices}),
    ]

    found = Case(finding=f"scaling_pays/{MODEL}", verdict="yes", edits=edits).derive()

    for kept in ("uncompiled fp32 kept 80.0 % (79.0 to 81.0)", "90.0 % (89.0 to 91.0) on each."):
        assert (kept in found.statement) == (devices == 1)


@pytest.mark.parametrize(("of_defaults", "said"), [(1, True), (2, False)])
def test_a_setting_is_compared_inside_its_session_where_the_defaults_are_of_another(
    of_defaults: int, *, said: bool
) -> None:
    edits = [
        *speedups(1.0),
        setting(DEFAULTS, session=of_defaults),
        *(
            setting(name, session=2, **figure("throughput_per_s", rate, 1.0))
            for name, rate in zip(SETTINGS, (400.0, 500.0, 800.0), strict=True)
        ),
    ]

    found = SharedCase(finding=SETTING, verdict="too close to call", edits=edits).derive()

    beside = "; in its own session it trained 1.600 times (1.597 to 1.603) as fast as with buckets"
    assert (beside in found.statement) == said
    assert ("and 2.000 times" in found.statement) == said


@pytest.mark.parametrize("base_per_s", [80.0, math.nan])
def test_a_strong_speedup_is_split_into_the_smaller_batch_and_the_sharing(
    base_per_s: float,
) -> None:
    (whole,) = {*base()[0].scaling_efficiency["strong_variant"]} - {""}
    edits = [
        shared("strong_speedup", 1.2, 0.1, is_strong=True),
        shared("base_speedup", 1.5, 0.1, is_strong=True),
        shared("base_throughput_per_s", base_per_s, 0.4, is_strong=True),
        Edit(table="variants", where={"variant": whole}, cells=figure("throughput_per_s", 100.0)),
    ]

    found = Case(finding=f"scaling_strong/{MODEL}", verdict="yes", edits=edits).derive()

    part = "0.8000 times (0.7960 to 0.8040) from the smaller batch"
    assert (part in found.statement) == (base_per_s > 0)


@pytest.mark.parametrize("quicker", [1.5, 9.0])
def test_what_saves_memory_is_no_setting_for_speed(quicker: float) -> None:
    edits = [
        *speedups(1.02),
        *(setting(name, **figure("speedup", quicker)) for name in (*IN_PARTS, "none")),
    ]

    found = SharedCase(finding=SETTING, verdict="yes", edits=edits).derive()

    assert found.gain == 1.02
    assert "channels-last" not in found.statement
