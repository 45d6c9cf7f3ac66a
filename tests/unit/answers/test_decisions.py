import math

import pytest

from gpu_report.answers.finding import Evidence, Finding
from gpu_report.answers.summary import decisions
from gpu_report.glossary import Row
from tests.unit.answers.editing import make_finding

AXES = {"workers": "workers", "formats": "precision", "device": "device", "noise": "color"}


def advice(
    experiment: str, rule: str, text: str, gain: float | None = None, *, variant: str = ""
) -> Finding:
    return make_finding(
        id=f"{experiment}_{rule}/{text.lower()}",
        experiment=experiment,
        evidence=(Evidence(label="throughput", value="1", table="variants", variant=variant),),
        recommendation=f"{text}.",
        gain=gain,
        gain_interval=None if gain is None else (gain - 0.1, gain + 0.1),
    )


UNET, SHORT_UNET, LSTM = (
    "unet-cuda-b16-w0-fp32-e5",
    "unet-cuda-b16-w0-bf16-e5",
    "lstm-cuda-b64-w0-fp32-e5",
)
WORKLOADS = {UNET: "unet", SHORT_UNET: "unet", LSTM: "lstm"}


CAPTURE = advice("formats", "best", "capture", 3.0, variant=UNET)


def decided(findings: list[Finding], *, has_gpu: bool = True) -> list[Row]:
    return decisions(findings, AXES, workloads=WORKLOADS, has_gpu=has_gpu)


def test_the_symptom_with_the_greatest_gain_comes_first_and_what_was_not_measured_last() -> None:
    found = decided(
        [
            advice("trace", "pageable_copies", "pin"),
            advice("workers", "enough", "load", 2.0),
            advice("formats", "best", "capture", 3.0),
        ],
    )

    assert [row["action"] for row in found] == ["capture", "load", "pin"]
    assert (found[0]["gain"], found[0]["gain_low"], found[0]["gain_high"]) == (3.0, 2.9, 3.1)
    assert math.isnan(found[2]["gain"])


IN_TWO = advice("trace", "tensor_cores", "launch", 3.0).model_copy(
    update={
        "evidence": tuple(
            Evidence(label="throughput", value="1", table="variants", variant=variant)
            for variant in (UNET, LSTM)
        )
    }
)


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ([advice("trace", "tensor_cores", "launch"), CAPTURE], ["capture"]),
        (
            [
                CAPTURE,
                advice("formats", "best", "compile", 2.0, variant=SHORT_UNET),
                advice("formats", "best", "fuse", 1.5, variant=LSTM),
            ],
            ["capture", "fuse"],
        ),
        (
            [
                advice("trace", "tensor_cores", "launch", 4.0, variant=SHORT_UNET),
                CAPTURE,
                advice("workers", "enough", "load", 3.5),
            ],
            ["load", "capture"],
        ),
        ([CAPTURE, IN_TWO], ["capture", "launch"]),
        (
            [
                advice("workers", "help", "most", 3.0, variant=UNET),
                advice("workers", "enough", "suffice", 2.9, variant=UNET),
                advice("workers", "help", "fastest", 2.0, variant=LSTM),
            ],
            ["suffice", "fastest"],
        ),
        (
            [
                advice("trace", "tensor_cores", "launch", 3.0),
                advice("trace", "tensor_cores", "fill"),
            ],
            ["launch"],
        ),
        ([advice("device", "faster", "gpu", 40.0)], []),
        ([advice("noise", "best", "blue", 1.2)], ["blue"]),
    ],
    ids=[
        "measured before unmeasured",
        "the better for each workload",
        "an experiment before traces",
        "traces of another workload",
        "the number that suffices before the fastest, where one is known to",
        "traces where nothing else is",
        "a GPU at all is no decision",
        "an axis without a symptom",
    ],
)
def test_of_advice_for_one_symptom_the_best_measured_for_each_workload_is_kept(
    given: list[Finding], actions: list[str]
) -> None:
    found = decided(given)

    assert [row["action"] for row in found] == actions
    assert all(row["group"] for row in found)


def said(rule: str, text: str, variant: str, *, gain: float | None = None) -> Finding:
    found = advice("ladder", rule, variant.replace("-", "_"), gain, variant=variant)
    return found.model_copy(update={"recommendation": f"{text}."})


ABOUT_LADDER = {"ladder": "optimization"}


def test_the_gain_whose_interval_begins_highest_is_recommended_of_one_workload() -> None:
    unsure = said("best", "Train unet with bf16", UNET, gain=3.2)
    unsure = unsure.model_copy(update={"gain_interval": (1.3, 7.8)})
    sure = said("best", "Train unet with fp16", SHORT_UNET, gain=2.5)

    (row,) = decisions([unsure, sure], ABOUT_LADDER, workloads=WORKLOADS, has_gpu=True)

    assert row["action"] == "Train unet with fp16"


def test_without_a_gpu_no_symptom_of_one_is_named() -> None:
    gains = [advice("formats", "best", "fuse", 2.0)]

    (on_gpu,), (on_cpu,) = (decided(gains, has_gpu=has_gpu) for has_gpu in (True, False))

    assert "tensor cores" in on_gpu["symptom"]
    assert "tensor cores" not in on_cpu["symptom"]


def test_that_an_optimization_is_faster_is_no_symptom_of_an_idle_gpu() -> None:
    found = decisions(
        [advice("ladder", "best", "fuse", 2.0), advice("trace", "launch_bound", "launch", 1.5)],
        {"ladder": "optimization"},
        workloads=WORKLOADS,
        has_gpu=True,
    )

    assert [(row["action"], "idle" in row["symptom"]) for row in found] == [
        ("fuse", False),
        ("launch", True),
    ]
