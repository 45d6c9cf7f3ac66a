import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOST = {"status": "failed", "reason": "RuntimeError: boom"}


def step_times(small: float, medium: float, large: float, spread: float = 0.01) -> list[Edit]:
    return [
        Edit(table="complexity", where={"device": "cpu", "size": size}, cells=figure("step_time_ms", value, spread))
        for size, value in {"small": small, "medium": medium, "large": large}.items()
    ]


def throughputs(device: str, small: float, large: float, spread: float = 1.0) -> list[Edit]:
    return [
        Edit(
            table="complexity", where={"device": device, "size": size}, cells=figure("throughput_per_s", value, spread)
        )
        for size, value in {"small": small, "large": large}.items()
    ]


def peak_shares(small: float, large: float, spread: float = 0.001) -> list[Edit]:
    """Of the smallest and the largest; that of the model between them is not known."""
    return [
        Edit(
            table="efficiency",
            where={"variant": f"cnn-{size}-cuda-b64-w0-fp32-e3"},
            cells=figure("share_of_peak", share, spread),
        )
        for size, share in {"small": small, "medium": float("nan"), "large": large}.items()
    ]


LARGER_LOST = [Edit(table="complexity", where={"size": size}, cells=LOST) for size in ("medium", "large")]
ON_CPU = throughputs("cpu", 1000, 100, spread=0.5)
PEAK = "complexity_peak_use/cnn_cuda"
GROWTH, OVERHEAD, GAIN = (
    "complexity_time_growth/cnn_cpu",
    "complexity_overhead/cnn_cpu",
    "complexity_small_gain/cnn_cuda",
)
CASES = [
    Case(finding=GROWTH, verdict="yes", edits=step_times(1, 2, 20)),
    Case(finding=GROWTH, verdict="no", edits=step_times(1, 20, 500)),
    Case(finding=GROWTH, verdict="not resolved", edits=step_times(1, 20, 223, spread=0.1)),
    Case(finding=GROWTH, verdict="not measured", edits=LARGER_LOST),
    Case(finding=OVERHEAD, verdict="yes", edits=step_times(1, 1.2, 20)),
    Case(finding=OVERHEAD, verdict="no", edits=step_times(1, 10, 20)),
    Case(finding=OVERHEAD, verdict="not resolved", edits=step_times(1, 3.7, 20, spread=0.2)),
    Case(finding=OVERHEAD, verdict="not measured", edits=LARGER_LOST),
    Case(finding=GAIN, verdict="yes", edits=[*ON_CPU, *throughputs("cuda", 3000, 2000)]),
    Case(finding=GAIN, verdict="no", edits=[*ON_CPU, *throughputs("cuda", 9000, 300)]),
    Case(finding=GAIN, verdict="not resolved", edits=[*ON_CPU, *throughputs("cuda", 9000, 900, spread=50)]),
    Case(finding=GAIN, verdict="not measured", edits=LARGER_LOST),
    Case(finding="complexity_small_gain", verdict="not measured", devices=("cpu",)),
    Case(finding=PEAK, verdict="yes", edits=peak_shares(0.01, 0.4)),
    Case(finding=PEAK, verdict="no", edits=peak_shares(0.4, 0.01)),
    Case(finding=PEAK, verdict="not resolved", edits=peak_shares(0.2, 0.22, spread=0.02)),
    Case(finding=PEAK, verdict="not measured", edits=peak_shares(float("nan"), 0.3)),
    Case(finding="complexity_peak_use", verdict="not measured", devices=("cpu",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_parameters_are_told_with_all_their_digits() -> None:
    found = Case(finding=GROWTH, verdict="yes", edits=step_times(1, 2, 20)).derive()

    assert "223 times the parameters, 6,690,000 instead of 30,000" in found.statement
    assert "20.00 times" in found.statement


def test_sizes_with_the_same_number_of_parameters_answer_nothing() -> None:
    edit = Edit(table="complexity", where={"device": "cpu"}, cells={"parameters": 30_000.0})

    found = Case(finding=GROWTH, verdict="not measured", edits=[edit]).derive()

    assert "different numbers of parameters" in found.statement
