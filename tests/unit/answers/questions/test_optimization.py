import math

import pytest

from gpu_report.answers.finding import Finding
from gpu_report.answers.question import QUESTIONS
from gpu_report.answers.questions import derive_findings
from gpu_report.answers.scope import experiment_scope
from tests.unit.answers.editing import Case, Edit, base, cases, edited, figure, unpaired_quality
from tests.unit.answers.shared import DEFAULTS, PARTS, base_of_shared, setting

LOST = {"status": "oom", "reason": "out of memory"}
GROUP = "unet_64px_cuda"
ALONE = ("workers4", "fused", "resident", "compile")
TOP = "fused+resident+compile"


def rung(name: str, **cells: object) -> Edit:
    return Edit(table="optimization", where={"optimization": name}, cells=cells)


LEFT_OUT = ("resident+compile", "fused+compile", "fused+resident")
EVERYTHING = ("workers4+fused", TOP, *LEFT_OUT, *ALONE)
LOST_ALL = [rung(name, **LOST) for name in EVERYTHING]


def left_out(*rates: float, spread: float = 0.2) -> list[Edit]:
    """100 samples/s with all steps, and these without each of fused, resident and compile."""
    pairs = zip((TOP, *LEFT_OUT), (100, *rates), strict=True)
    return [rung(name, **figure("throughput_per_s", rate, spread)) for name, rate in pairs]


OPTIMIZATION_CASES = [
    *cases(
        f"optimization_best/{GROUP}",
        yes=(),
        no=[rung(name, **figure("speedup", 0.8, 0.1)) for name in EVERYTHING],
        unresolved=[rung(name, **figure("speedup", 1.0, 0.1)) for name in EVERYTHING],
        missing=LOST_ALL,
    ),
    *cases(
        f"optimization_needed/{GROUP}",
        yes=left_out(50, 60, 70),
        no=left_out(50, 99.5, 70),
        unresolved=left_out(50, 60, 98, spread=4),
        missing=[rung(TOP, **LOST)],
    ),
    *cases(
        f"optimization_quality/{GROUP}",
        yes=[rung("compile", **unpaired_quality(0.5, 0.1))],
        no=(),
        unresolved=[rung("compile", **unpaired_quality(0.83, 0.1))],
        missing=LOST_ALL,
    ),
]


def test_a_step_without_which_the_whole_is_as_fast_is_advised_to_be_left_out() -> None:
    edits = left_out(50, 99.5, 70)

    found = Case(finding=f"optimization_needed/{GROUP}", verdict="no", edits=edits).derive()

    assert found.recommendation == "Leave data in GPU memory out for U-Net."


def test_a_step_without_which_nothing_was_measured_is_named_beside_the_others() -> None:
    edits = [*left_out(50, 60, 70), rung("fused+compile", **LOST)]

    found = Case(finding=f"optimization_needed/{GROUP}", verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; without data in GPU memory there are no numbers.")


def test_a_step_that_is_too_close_to_call_is_named_beside_a_needless_one() -> None:
    unclear = rung("fused+resident", **figure("throughput_per_s", 98, 4))
    edits = [*left_out(50, 99.5, 70), unclear]

    found = Case(finding=f"optimization_needed/{GROUP}", verdict="no", edits=edits).derive()

    assert "; whether it needs torch.compile is too close to call." in found.statement


PREPARATION_GROUP = "unet_64px_cuda"
FINDING = f"optimization_compiling/{PREPARATION_GROUP}"


def compiled(**cells: object) -> Edit:
    return Edit(table="optimization", where={"optimization": "fused+resident+compile"}, cells=cells)


FASTER = figure("speedup", 1.5, 0.1)
COMPILED = ("compile", "fused+compile", "resident+compile", TOP)
NOTHING_PREPARED = [
    Edit(table="optimization", where={"optimization": name}, cells={"preparation_cold_s": 0.0})
    for name in COMPILED
]
PREPARATION_CASES = [
    *cases(
        FINDING,
        yes=[compiled(**FASTER, break_even_steps=100.0)],
        no=[compiled(**FASTER, break_even_steps=1000.0)],
        unresolved=[rung(name, **figure("speedup", 1.0, 0.1)) for name in COMPILED],
    ),
    Case(finding="optimization_compiling", verdict="not measured", edits=NOTHING_PREPARED),
]


def test_nothing_is_asked_of_compiling_that_makes_the_training_slower() -> None:
    tables, study = base()
    for name in COMPILED:
        slower = {**figure("speedup", 0.9, 0.05), "break_even_steps": float("nan")}
        tables = edited(tables, rung(name, **slower))

    found = [finding.id for finding in derive_findings(tables, study.experiments)]

    assert FINDING not in found
    assert "optimization_compiling" not in found


TRAINED = f"optimization_best/{PREPARATION_GROUP}"


def test_the_fastest_is_recommended_only_for_trainings_long_enough_to_repay_it() -> None:
    # Its step is no shorter than that of what compiles less.
    fastest = {**FASTER, **figure("throughput_per_s", 800), **figure("step_time_ms", 1000.0)}

    soon, late = (
        Case(
            finding=TRAINED, verdict="yes", edits=[compiled(**fastest, break_even_steps=steps)]
        ).derive()
        for steps in (100.0, 1000.0)
    )

    assert soon.recommendation.endswith("instead of the eager baseline.")
    assert late.recommendation.endswith(", only above 1000 steps with an empty compile cache.")


def test_a_faster_configuration_has_to_repay_its_compiling_over_one_that_compiles_less() -> None:
    fastest = {**FASTER, **figure("throughput_per_s", 800), **figure("step_time_ms", 10.0)}
    quick = {**figure("throughput_per_s", 700), **figure("step_time_ms", 11.0)}
    rival = rung("fused+resident", **quick, preparation_cold_s=1.0)
    soon = compiled(**fastest, break_even_steps=100.0, preparation_cold_s=11.0)
    later = compiled(**fastest, break_even_steps=1000.0, preparation_cold_s=11.0)

    early = Case(finding=FINDING, verdict="yes", edits=[soon, rival]).derive()

    assert "after 100 steps" in early.statement
    assert "after 10,000 steps against fused optimizer and data in GPU memory" in early.statement
    for repaid in (soon, later):
        best = Case(finding=TRAINED, verdict="yes", edits=[repaid, rival]).derive()
        assert "only above 10,000 steps" in best.recommendation
        assert best.recommendation.endswith("; below that, fused optimizer and data in GPU memory.")


SAVING_LOST = {"status": "oom", "reason": "out of memory"}
SAVING_GROUP = "unet_128px_cuda"
SAVES = f"memory_saves/{SAVING_GROUP}_checkpoint"


def saving(name: str, **cells: object) -> Edit:
    return Edit(table="memory", where={"optimization": name}, cells=cells)


BEFORE = saving("none", **figure("memory_peak_mib", 10_000, 10))
SAVING_CASES = [
    *cases(
        SAVES,
        yes=[BEFORE, saving("checkpoint", **figure("memory_peak_mib", 4000, 10))],
        no=[BEFORE, saving("checkpoint", **figure("memory_peak_mib", 9900, 10))],
        unresolved=[BEFORE, saving("checkpoint", **figure("memory_peak_mib", 9000, 500))],
        missing=[saving("none", **SAVING_LOST)],
    ),
]


def test_an_option_for_speed_that_saves_memory_is_recommended_if_it_is_not_slower() -> None:
    def found(mib: float, speedup: float) -> list[Finding]:
        cells = {**figure("memory_peak_mib", mib, 10), **figure("speedup", speedup, 0.01)}
        tables, study = base()
        before = {**figure("memory_peak_mib", 10_000, 10), "device_memory_mib": 16_000.0}
        for edit in (
            Edit(table="optimization", where={}, cells=before),
            rung("compile", **cells),
        ):
            tables = edited(tables, edit)
        (experiment,) = [each for each in study.experiments if each.name == "optimization"]
        (saves,) = [question for question in QUESTIONS if question.name == "saves"]
        return [*saves.findings(experiment_scope(tables, experiment))]

    (less,), (slower,), (more,) = found(5000, 2.0), found(5000, 0.5), found(20_000, 2.0)

    assert [one.verdict for one in (less, slower, more)] == ["yes", "yes", "no"]
    assert "torch.compile" in less.recommendation
    assert not slower.recommendation + more.recommendation
    assert not found(10_500, 2.0)


@pytest.mark.parametrize(
    ("device_mib", "is_advised"), [(19_000.0, True), (21_000.0, False), (math.nan, True)]
)
def test_memory_is_saved_at_a_cost_only_where_half_of_the_device_s_is_taken_or_nothing_known(
    device_mib: float, *, is_advised: bool
) -> None:
    edits = [
        BEFORE,
        saving("checkpoint", **figure("memory_peak_mib", 4000, 10)),
        Edit(table="memory", where={}, cells={"device_memory_mib": device_mib}),
    ]

    found = Case(finding=SAVES, verdict="yes", edits=edits).derive()

    assert bool(found.recommendation) == is_advised


def test_what_saves_memory_is_named_by_what_changes_alone_and_by_how_many_gpus_share() -> None:
    study, tables = base_of_shared()
    for edit in (
        setting(DEFAULTS, **figure("memory_peak_mib", 10_000, 10)),
        setting(f"{PARTS[0]}+{DEFAULTS}", **figure("memory_peak_mib", 4000, 10)),
    ):
        tables = edited(tables, edit)
    (experiment,) = [each for each in study.experiments if each.name == "ddp_options"]
    (saves,) = [question for question in QUESTIONS if question.name == "saves"]

    found = [one.statement for one in saves.findings(experiment_scope(tables, experiment))]

    (said,) = [statement for statement in found if "in 2 parts" in statement]
    assert said.startswith("U-Net (DistributedDataParallel on 2 devices) took 60.0")
    assert "less memory at its peak with accumulation in 2 parts: " in said


CASES = [*OPTIMIZATION_CASES, *PREPARATION_CASES, *SAVING_CASES]
