import pytest

from tests.unit.findings.editing import Case, Edit, figure

FAILED = {"status": "failed", "reason": "RuntimeError: no kernel image"}


def speedup(workload: str, value: float, spread: float = 0.0, **cells: object) -> Edit:
    return Edit(
        table="device",
        where={"workload": workload, "device": "cuda"},
        cells={**figure("speedup", value, spread), **cells},
    )


def convolutions(workload: str, share: float) -> Edit:
    where = {"workload": workload, "device": "cpu", "category": "convolution"}
    return Edit(table="category_shares", where=where, cells={"share": share})


UNET_FIRST = [speedup("unet", 20.0, 0.5), speedup("lstm", 12.0, 0.5), speedup("cnn", 8.0, 0.5)]
UNET_DENSEST = [convolutions("unet", 0.7), convolutions("lstm", 0.0), convolutions("cnn", 0.5)]
CNN_DENSEST = [convolutions("unet", 0.3), convolutions("lstm", 0.0), convolutions("cnn", 0.5)]
LIKE_DENSITY = [convolutions("unet", 0.52), convolutions("lstm", 0.0), convolutions("cnn", 0.5)]

CASES = [
    Case(finding="device_faster/lstm", verdict="yes", edits=[speedup("lstm", 1.3, 0.2)]),
    Case(finding="device_faster/lstm", verdict="no", edits=[speedup("lstm", 0.7, 0.2)]),
    Case(finding="device_faster/lstm", verdict="not resolved", edits=[speedup("lstm", 1.3, 0.4)]),
    Case(
        finding="device_faster/lstm", verdict="not resolved", edits=[speedup("lstm", 9.0, 0.1, marks="background load")]
    ),
    Case(finding="device_faster/lstm", verdict="not resolved", edits=[speedup("lstm", 9.0, float("nan"), processes=1)]),
    Case(
        finding="device_faster/lstm",
        verdict="not measured",
        edits=[Edit(table="device", where={"workload": "lstm", "device": "cuda"}, cells=FAILED)],
    ),
    Case(finding="device_faster", verdict="not measured", devices=("cpu",)),
    Case(finding="device_gains_most", verdict="yes", edits=UNET_FIRST),
    Case(finding="device_gains_most", verdict="no"),
    Case(finding="device_gains_most", verdict="not resolved", edits=[speedup("unet", 14.0, 2.0)]),
    Case(
        finding="device_gains_most",
        verdict="not measured",
        edits=[Edit(table="device", where={"workload": name}, cells=FAILED) for name in ("unet", "cnn")],
    ),
    Case(finding="device_convolutions", verdict="yes", edits=UNET_FIRST + UNET_DENSEST),
    Case(finding="device_convolutions", verdict="no", edits=UNET_FIRST + CNN_DENSEST),
    Case(finding="device_convolutions", verdict="not resolved", edits=UNET_FIRST + LIKE_DENSITY),
    Case(finding="device_convolutions", verdict="not resolved", edits=UNET_DENSEST),
    Case(finding="device_convolutions", verdict="not measured", devices=("cpu",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_a_speedup_is_told_with_interval_count_and_time_saved() -> None:
    found = Case(finding="device_faster/lstm", verdict="yes", edits=[speedup("lstm", 4.0, 0.2)]).derive()

    assert "4.00 times (95 % interval 3.80 to 4.20, 5 processes)" in found.statement
    assert "saved 75.0 % (73.7 to 76.2) of the time" in found.statement
    assert found.gain == 4.0


def test_a_slower_accelerator_is_advised_against_with_the_gain_of_the_cpu() -> None:
    found = Case(finding="device_faster/lstm", verdict="no", edits=[speedup("lstm", 0.5)]).derive()

    assert found.recommendation.startswith("Train bidirectional LSTM on the CPU")
    assert found.gain == 2.0


def test_a_doubted_time_names_the_variant_and_the_doubt() -> None:
    found = Case(
        finding="device_faster/lstm", verdict="not resolved", edits=[speedup("lstm", 9, marks="background load")]
    ).derive()

    assert "other programs took processor time from lstm-cuda-b64-w0-fp32-e3x10" in found.statement
    assert not found.recommendation


def test_a_failed_variant_is_not_measured_for_the_reason_of_its_record() -> None:
    edit = Edit(table="device", where={"workload": "lstm", "device": "cuda"}, cells=FAILED)

    found = Case(finding="device_faster/lstm", verdict="not measured", edits=[edit]).derive()

    assert "RuntimeError: no kernel image" in found.statement
