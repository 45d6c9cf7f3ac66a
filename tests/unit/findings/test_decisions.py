import math

import pytest

from gpu_report.findings.answers import SYMPTOMS, decisions
from gpu_report.findings.finding import Evidence, Finding
from gpu_report.findings.rules import RULES
from gpu_report.glossary import Row

AXES = {"workers": "workers", "ladder": "optimization", "device": "device", "noise": "color"}


def advice(
    experiment: str, rule: str, text: str, gain: float | None = None, *, variant: str = ""
) -> Finding:
    return Finding(
        id=f"{experiment}_{rule}/{text.lower()}",
        experiment=experiment,
        question="What is faster?",
        verdict="yes",
        statement="It is.",
        evidence=(Evidence(label="throughput", value="1", table="variants", variant=variant),),
        threshold="Any.",
        recommendation=f"{text}.",
        gain=gain,
        gain_interval=None if gain is None else (gain - 0.1, gain + 0.1),
    )


WORKLOADS = {
    "unet-cuda-b16-w0-fp32-e5": "unet",
    "unet-cuda-b16-w0-bf16-e5": "unet",
    "lstm-cuda-b64-w0-fp32-e5": "lstm",
}


UNET_AND_LSTM = ("unet-cuda-b16-w0-fp32-e5", "lstm-cuda-b64-w0-fp32-e5")
"""Variants of two workloads."""


def decided(findings: list[Finding], *, has_gpu: bool = True) -> list[Row]:
    return decisions(findings, AXES, workloads=WORKLOADS, has_gpu=has_gpu)


def test_the_symptom_with_the_greatest_gain_comes_first_and_what_was_not_measured_last() -> None:
    found = decided(
        [
            advice("trace", "pageable_copies", "pin"),
            advice("workers", "enough", "load", 2.0),
            advice("ladder", "best", "capture", 3.0),
        ],
    )

    assert [row["action"] for row in found] == ["capture", "load", "pin"]
    assert (found[0]["gain"], found[0]["gain_low"], found[0]["gain_high"]) == (3.0, 2.9, 3.1)
    assert math.isnan(found[2]["gain"])


def test_advice_without_a_gain_gives_way_to_measured_advice_for_the_same_symptom() -> None:
    found = decided(
        [advice("trace", "launch_bound", "launch"), advice("ladder", "best", "capture", 3.0)],
    )

    assert [row["action"] for row in found] == ["capture"]


def test_of_two_pieces_of_advice_for_one_workload_the_better_stands() -> None:
    found = decided(
        [
            advice("ladder", "best", "capture", 3.0, variant="unet-cuda-b16-w0-fp32-e5"),
            advice("ladder", "best", "compile", 2.0, variant="unet-cuda-b16-w0-bf16-e5"),
            advice("ladder", "best", "fuse", 1.5, variant="lstm-cuda-b64-w0-fp32-e5"),
        ],
    )

    assert [row["action"] for row in found] == ["capture", "fuse"]


def test_what_an_experiment_gained_comes_before_what_followed_from_traces() -> None:
    found = decided(
        [
            advice("trace", "launch_bound", "launch", 3.0, variant="unet-cuda-b16-w0-bf16-e5"),
            advice("ladder", "best", "capture", 2.0, variant="unet-cuda-b16-w0-fp32-e5"),
            advice("workers", "enough", "load", 2.5),
        ]
    )

    assert [row["action"] for row in found] == ["load", "capture"]


def test_what_followed_from_traces_of_another_workload_is_kept() -> None:
    urgent, gained = (
        Evidence(label="throughput", value="1", table="variants", variant=name)
        for name in UNET_AND_LSTM
    )
    launch = advice("trace", "launch_bound", "launch", 3.0).model_copy(
        update={"evidence": (urgent, gained)}
    )
    capture = advice("ladder", "best", "capture", 2.0, variant=urgent.variant)

    assert [row["action"] for row in decided([capture, launch])] == ["launch", "capture"]


def test_without_such_an_experiment_the_gain_from_traces_counts() -> None:
    found = decided(
        [
            advice("trace", "launch_bound", "launch", 3.0),
            advice("trace", "accelerator_busy", "fill"),
        ]
    )

    assert [row["action"] for row in found] == ["launch"]


def test_to_train_on_a_gpu_at_all_is_no_decision() -> None:
    assert decided([advice("device", "faster", "gpu", 40.0)]) == []


def test_an_axis_without_a_symptom_of_its_own_is_listed_too() -> None:
    (row,) = decided([advice("noise", "best", "blue", 1.2)])

    assert row["action"] == "blue"
    assert row["symptom"]


def test_without_a_gpu_no_symptom_of_one_is_named() -> None:
    gains = [advice("ladder", "best", "fuse", 2.0)]

    (on_gpu,), (on_cpu,) = (decided(gains, has_gpu=has_gpu) for has_gpu in (True, False))

    assert "GPU" in on_gpu["symptom"]
    assert "GPU" not in on_cpu["symptom"]


def test_a_symptom_is_named_in_the_first_of_its_rows() -> None:
    first, second = decided(
        [advice("ladder", "best", "capture", 3.0), advice("ladder", "best", "compile", 2.0)],
    )

    assert first["symptom"] == first["group"] == second["group"]
    assert (second["symptom"], second["metric"]) == ("", "")


@pytest.mark.parametrize("rule", [rule for symptom in SYMPTOMS for rule in symptom.rules])
def test_every_rule_that_treats_a_symptom_is_declared(rule: tuple[str, str]) -> None:
    about, name = rule

    assert any(each.name == name and each.about in (about, "any axis") for each in RULES)
