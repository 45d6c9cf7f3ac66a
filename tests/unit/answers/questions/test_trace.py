import re
from typing import Any

from gpu_report.answers.finding import Finding
from gpu_report.answers.question import QUESTIONS
from gpu_report.answers.scope import TRACE, chapter_scopes, key_of
from gpu_report.traces.advice import ALL_ADVICE, Advice
from tests.unit.answers.editing import Case, Edit, base, cases, figure

ASKED = [advice for advice in ALL_ADVICE if advice.question]
BY_NAME = {advice.name: advice for advice in ASKED}
BEYOND = {advice.name: 1.5 * advice.threshold for advice in ASKED}
RESIDENT, SLOWED = "unet-128px-cuda-b16-w0-fp32-e2x4-resident", "lstm-cuda-b64-w0-fp32-e3x10"
EXCHANGING = (
    Edit(table="step_shares", where={}, cells={"communication_share": 0.01}),
    Edit(table="variants", where={}, cells={"devices": 2}),
)
OF_ANOTHER_RULE = Edit(table="trace_advice", where={}, cells={"rule": "another"})
ANSWERED = Edit(table="trace_unanswered", where={}, cells={"rule": "another"})
OF_DEVICE = [advice for advice in ASKED if advice.name not in ("data loader", "communication")]


def finding_of(advice: Advice) -> str:
    return f"trace_{key_of(advice.name)}"


def given(advice: Advice, **cells: Any) -> Edit:
    """That every reliable trace has the advice; with what else the cells say."""
    return Edit(
        table="trace_advice",
        where={},
        cells={"rule": advice.name, "value": BEYOND[advice.name], **cells},
    )


def unanswered(advice: Advice, **cells: Any) -> Edit:
    """That the traces that cannot show some advice cannot show this one."""
    return Edit(table="trace_unanswered", where={}, cells={"rule": advice.name, **cells})


def of_slowed_ones_alone(advice: Advice) -> list[Edit]:
    """That none but the LSTM on CUDA was profiled, whose trace cannot show the advice."""
    gone = [*({"workload": name} for name in ("unet", "cnn", "image_files")), {"device": "cpu"}]
    lost = [Edit(table="step_shares", where=where, cells={"variant": "gone"}) for where in gone]
    return [*lost, unanswered(advice, variant=SLOWED)]


TRACE_CASES = [
    case
    for advice in ASKED
    for case in cases(
        finding_of(advice),
        yes=[*EXCHANGING, given(advice, finding="It was so.")],
        no=[*EXCHANGING, OF_ANOTHER_RULE, ANSWERED],
        unresolved=[*EXCHANGING, *of_slowed_ones_alone(advice)],
    )
]


def test_the_line_and_its_reason_are_those_of_the_advice() -> None:
    for advice in ASKED:
        edits = [*EXCHANGING, given(advice)]
        found = Case(finding=finding_of(advice), verdict="yes", edits=edits).derive()

        limit = f"{100 * advice.threshold:g} %" if advice.unit == "1" else f"{advice.threshold:g}"
        assert f"at least {limit}. {advice.reason}" in found.threshold
        assert found.recommendation.startswith(advice.remedy.rstrip("."))


def test_a_trace_that_cannot_show_it_does_not_keep_the_others_from_saying_no() -> None:
    for advice in ASKED:
        edits = [*EXCHANGING, OF_ANOTHER_RULE, unanswered(advice, variant=RESIDENT)]
        found = Case(finding=finding_of(advice), verdict="no", edits=edits).derive()

        assert found.verdict == "no"
        assert re.search(
            r"in none of \d+ .*; 1 other trace could not be judged\.$", found.statement
        )


def test_the_gpu_s_idle_time_and_its_short_kernels_are_not_asked_about_again() -> None:
    names = {question.name for question in QUESTIONS if TRACE in question.about}

    assert not names & {"accelerator_busy", "short_kernels", "allocator"}


def test_a_gain_that_is_not_significant_is_none() -> None:
    unclear = {"throughput_per_s_low": 1.0, "throughput_per_s_high": 1000.0}
    edits = [
        given(BY_NAME["tensor cores"]),
        Edit(table="variants", where={"device": "cuda"}, cells=unclear),
        Edit(table="precision", where={}, cells={"speedup_p": 0.5}),
    ]

    assert Case(finding="trace_tensor_cores", verdict="yes", edits=edits).derive().gain is None


def test_the_gain_of_an_option_is_that_over_the_training_with_the_fewest_others() -> None:
    everything = {"optimization": "fused+resident+compile"}
    compiled = [
        given(BY_NAME["launch-bound"]),
        Edit(table="optimization", where={"optimization": "compile"}, cells=figure("speedup", 1.5)),
        Edit(table="variants", where=everything, cells=figure("throughput_per_s", 1e6)),
    ]

    found = Case(finding="trace_launch_bound", verdict="yes", edits=compiled).derive()

    assert found.gain == 1.5
    assert found.recommendation.endswith(
        "(the gain is that of torch.compile added to U-Net 64px on the GPU (batch size 8))."
    )


def test_without_an_option_by_itself_the_gain_is_said_of_all_together_and_ranks_nothing() -> None:
    edits = [
        given(BY_NAME["launch-bound"], variant="unet-64px-cuda-b8-w0-fp32-e3"),
        *(
            Edit(table="variants", where={"optimization": name}, cells={"status": "failed"})
            for name in ("compile", "fused")
        ),
        Edit(
            table="optimization",
            where={"optimization": "fused+resident+compile"},
            cells=figure("speedup", 9.0),
        ),
    ]

    found = Case(finding="trace_launch_bound", verdict="yes", edits=edits).derive()

    assert found.gain is None
    assert (
        "measured: fused optimizer, data in GPU memory and torch.compile added to U-Net 64px"
        in (found.recommendation)
    )
    assert found.recommendation.endswith(", together 9.00 times as fast).")


def test_what_a_bound_gains_is_no_gain_of_the_option_beside_it() -> None:
    bound, *others = (
        "fused+resident+compile",
        *("fused", "compile", "fused+compile", "fused+resident", "resident+compile"),
        "resident+graphs",
    )
    edits = [
        given(BY_NAME["launch-bound"], variant="unet-64px-cuda-b8-w0-fp32-e3"),
        *(
            Edit(table="variants", where={"optimization": name}, cells={"status": "failed"})
            for name in others
        ),
        Edit(
            table="variants",
            where={"optimization": bound},
            cells={"options": "nocomm+compile", **figure("throughput_per_s", 1e6)},
        ),
    ]

    found = Case(finding="trace_launch_bound", verdict="yes", edits=edits).derive()

    remedy = BY_NAME["launch-bound"].remedy.rstrip(".")
    assert found.recommendation == f"{remedy} (found in U-Net 64px on the GPU (batch size 8))."


def test_advice_without_a_measured_gain_names_the_worst_of_its_configurations() -> None:
    worst = {"variant": "unet-64px-cuda-b8-w0-fp32-e3"}
    edits = [
        given(BY_NAME["data loader"]),
        Edit(table="trace_advice", where=worst, cells={"value": 0.9}),
        Edit(table="variants", where={}, cells={"status": "failed"}),
    ]

    found = Case(finding="trace_data_loader", verdict="yes", edits=edits).derive()

    assert re.search(
        r"\(found in U-Net 64px on the GPU \(batch size 8\), the worst of \d+\)\.$",
        found.recommendation,
    )


def test_the_gain_shown_is_without_quality_flags_where_there_is_one() -> None:
    edits = [
        given(BY_NAME["launch-bound"]),
        *(
            Edit(table="optimization", where={"optimization": name}, cells=figure("speedup", gain))
            for name, gain in {"compile": 1.5, "fused": 1.2}.items()
        ),
        Edit(table="variants", where={"optimization": "compile"}, cells={"marks": "host jitter"}),
    ]

    assert Case(finding="trace_launch_bound", verdict="yes", edits=edits).derive().gain == 1.2


def test_what_followed_on_a_trace_that_failed_its_checks_is_evidence_too() -> None:
    compiled = {"optimization": "compile"}
    edits = [
        given(BY_NAME["launch-bound"]),
        Edit(table="trace_advice", where={}, cells={"variant": RESIDENT}),
        Edit(table="optimization", where=compiled, cells=figure("speedup", 1.5)),
    ]
    doubted = unanswered(BY_NAME["launch-bound"], variant="unet-64px-cuda-b8-w0-fp32-e3")

    without, with_it = (
        Case(finding="trace_launch_bound", verdict="yes", edits=each).derive()
        for each in (edits, [*edits, doubted])
    )

    assert (without.gain, with_it.gain) == (None, 1.5)


def test_a_precision_before_counts_as_an_option_does_for_the_measured_gain() -> None:
    def variants(optimization: str, **cells: Any) -> Edit:
        return Edit(table="variants", where={"optimization": optimization}, cells=cells)

    edits = [
        given(BY_NAME["launch-bound"]),
        variants("compile", status="failed"),
        variants("fused", precision="bf16"),
        variants("fused+compile", precision="bf16", **figure("throughput_per_s", 1e7)),
        variants("resident+compile", **figure("throughput_per_s", 1e6)),
        variants("fused+resident", status="failed"),
    ]

    found = Case(finding="trace_launch_bound", verdict="yes", edits=edits).derive()

    assert "torch.compile added to U-Net 64px on the GPU (batch size 8, data in GPU memory)" in (
        found.recommendation
    )


def test_traces_that_do_not_show_are_counted_apart_and_their_advice_does_not_count() -> None:
    advice = BY_NAME["launch-bound"]
    of_doubted = Edit(table="trace_advice", where={"variant": RESIDENT}, cells={"variant": SLOWED})
    edits = [given(advice), of_doubted]

    found = Case(finding=finding_of(advice), verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; 1 other trace could not be judged.")
    assert SLOWED not in {evidence.variant for evidence in found.evidence}


def test_without_a_gpu_nothing_is_asked_about_one() -> None:
    (scope,) = (scope for scope in chapter_scopes(base(("cpu",))[0]) if scope.name == TRACE)
    asked = [question for question in QUESTIONS if question.applies_to(scope)]
    of_gpus = {key_of(advice.name) for advice in OF_DEVICE} | {"transfer_bound"}

    answers = {question.name: list(question.answers(scope)) for question in asked}

    assert not any(answers[name] for name in of_gpus)
    assert answers["data_loader"]


EAGER, FASTEST = "cnn-medium-cuda-b64-w0-fp32-e15", "cnn-medium-cuda-b1024-w0-fp32-e15"
COPYING, IDLE = "trace_transfer_bound", "trace_idle"
MISSING = float("nan")


def steps(*, copies: float, **where: str) -> list[Edit]:
    """The share of a step that copies took on the accelerator."""
    cells = {"exposed_copy_share": copies}
    return [Edit(table="step_shares", where={"device": "cuda", **where}, cells=cells)]


def idle(eager: float, fastest: float = 0.1) -> list[Edit]:
    """That the GPU was idle for these shares of the steps of an image CNN, and never in others."""
    named = {EAGER: eager, FASTEST: fastest}
    return [
        Edit(table="step_shares", where=where, cells={"device_idle_share": share})
        for where, share in (
            ({"device": "cuda"}, 0.0),
            *(({"variant": name}, share) for name, share in named.items()),
        )
    ]


SHARE_CASES = [
    *cases(
        COPYING,
        yes=[*steps(copies=0.05), *steps(copies=0.3, variant=RESIDENT)],
        no=steps(copies=0.1),
        unresolved=steps(copies=MISSING),
    ),
    *cases(
        IDLE,
        yes=idle(0.6),
        no=idle(0.19),
        unresolved=[Edit(table="step_shares", where={}, cells={"device_idle_share": MISSING})],
    ),
]


def found(finding: str, *edits: Edit) -> Finding:
    return Case(finding=finding, verdict="yes", edits=edits).derive()


def test_copying_that_no_trace_shows_is_open_with_the_check_that_the_first_failed() -> None:
    first = "cnn-large-cuda-b64-w0-fp32-e3"
    cells = {"variant": first, "check": "durations", "spoils": "steps"}
    doubted = Edit(table="trace_doubts", where={}, cells=cells)

    statement = found(COPYING, doubted, *steps(copies=MISSING)).statement

    assert "it failed the check 'durations'" in statement


def test_the_idle_shares_are_those_of_the_eager_and_the_fastest_configuration() -> None:
    idlest = {"variant": "cnn-medium-cuda-b256-w0-fp32-e15"}
    slower = Edit(table="step_shares", where=idlest, cells={"device_idle_share": 0.01})

    statement = found(IDLE, *idle(0.6), slower).statement

    assert "CNN medium 60.0 %, with the fastest configuration 10.0 % (batch" in statement


def test_an_idle_model_with_nothing_faster_than_its_eager_baseline_is_named() -> None:
    lstm = Edit(table="step_shares", where={"variant": SLOWED}, cells={"device_idle_share": 0.7})

    statement = found(IDLE, *idle(0.6), lstm).statement

    assert "bidirectional LSTM 70.0 %, and nothing was significantly faster" in statement


def test_a_configuration_that_is_no_eager_baseline_is_asked_about_idle_time_too() -> None:
    tuned = Edit(table="step_shares", where={"variant": FASTEST}, cells={"device_idle_share": 0.5})
    cells = {"cause": "unknown", "share": 0.1}
    gaps = Edit(table="idle_causes", where={"variant": FASTEST}, cells=cells)
    late = [
        Edit(
            table="idle_causes",
            where={"variant": FASTEST, "operation": operation},
            cells={"cause": cause},
        )
        for operation, cause in (("aten::conv2d", "launch"), ("aten::copy_", "host"))
    ]

    without, *paced = (
        found(IDLE, *idle(0.0), tuned, gaps, *cause).statement for cause in ([], late[:1], late)
    )

    assert "in 1 of " in without
    assert "50.0 % of the step, in image CNN medium on the GPU (batch size 1024)" in without
    assert "causes" not in without
    for statement, part in zip(paced, ("20.0 %", "40.0 %"), strict=True):
        assert f"; {part} of this idle time" in statement


def test_copies_are_no_bottleneck_where_none_of_the_traces_that_show_them_has_one() -> None:
    answer = found(COPYING, *steps(copies=0.1), *steps(copies=MISSING, variant=RESIDENT))

    assert answer.verdict == "no"
    assert answer.statement.endswith("; 1 other trace could not be judged.")


CASES = [*TRACE_CASES, *SHARE_CASES]
