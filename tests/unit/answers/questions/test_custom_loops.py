from gpu_report.answers.questions import QUESTIONS, derive_findings
from gpu_report.answers.scope import OWN_LOOPS
from tests.factories import make_records, make_tables
from tests.unit.answers.editing import Case, Edit, cases, figure, rule_of
from tests.unit.answers.loops import ON_GPU, LoopCase, base_of_loops, loop, rate

LOST = {"status": "skipped", "reason": "no CUDA compiler"}


def speedups(value: float, spread: float = 0.1) -> list[Edit]:
    return [loop(name, **figure("speedup", value, spread)) for name in ON_GPU]


LOST_ALL = [loop(name, **LOST) for name in ON_GPU]
BEST, FUSION = "loops_best/linear_regression_cuda", "loops_fusion/linear_regression_cuda"
ON_CPU = "loops_fusion/linear_regression_cpu"
DEVICES = "loops_devices"
LOST_ALL_BUT_NONE = [Edit(table="loops", where={"device": "cuda"}, cells=LOST)]
DOUBTED = {"marks": "shared device"}

CASES: list[Case] = [
    *cases(
        BEST, kind=LoopCase, yes=(), no=speedups(0.8), unresolved=speedups(1.0), missing=LOST_ALL
    ),
    *cases(
        FUSION,
        kind=LoopCase,
        yes=[rate("separate", 100), rate("fusedstep", 200)],
        no=[rate("separate", 200), rate("fusedstep", 100)],
        unresolved=[rate("separate", 100, 9), rate("fusedstep", 105, 9)],
        missing=[loop("separate", **LOST)],
    ),
    LoopCase(finding=FUSION, verdict="yes", edits=[loop("separate", **DOUBTED)]),
    *cases(
        ON_CPU,
        kind=LoopCase,
        yes=(),
        no=[rate("none", 200, device="cpu"), rate("openmp", 100, device="cpu")],
    ),
    *cases(
        DEVICES,
        kind=LoopCase,
        yes=[rate("persistent", 1e15)],
        no=[rate(name, 1.0) for name in ON_GPU],
        unresolved=[rate("persistent", 1e15, 9e13), rate("openmp", 1.01e15, 9e13, device="cpu")],
        missing=LOST_ALL_BUT_NONE,
    ),
    LoopCase(finding=DEVICES, verdict="no", edits=[rate("openmp", 1e15, device="cpu")]),
]


def test_a_bound_is_never_the_best() -> None:
    found = LoopCase(
        finding=BEST, verdict="yes", edits=[loop("statistics", **figure("speedup", 1e6))]
    ).derive()

    assert "was fastest with the persistent CUDA kernel" in found.statement
    assert not [evidence for evidence in found.evidence if "statistics" in evidence.variant]


def test_the_devices_are_not_compared_where_only_the_baseline_of_the_cpus_loops_was_measured() -> (
    None
):
    everywhere = LoopCase(finding="sizes_devices", verdict="yes").derive()
    smallest = {"device": "cpu", "batch_size": 800}
    without = LoopCase(
        finding="sizes_devices",
        verdict="yes",
        edits=[Edit(table="sizes", where=smallest, cells={"options": "none"})],
    ).derive()

    assert "over 800 points" in everywhere.statement
    assert "over 800 points" not in without.statement


def test_loops_of_which_none_was_measured_are_asked_the_same_questions() -> None:
    study, _ = base_of_loops()
    tables = make_tables(study, make_records(study, status="skipped", reason="no CUDA compiler"))

    found = [
        one
        for one in derive_findings(tables, study.experiments)
        if one.experiment in ("loops", "sizes")
    ]

    of_loops = [
        question
        for question in QUESTIONS
        if any(about.startswith(OWN_LOOPS) for about in question.about)
    ]
    assert {rule_of(one.id).partition("_")[2] for one in found} == {
        question.name for question in of_loops
    }
    assert {one.verdict for one in found} == {"not measured"}
