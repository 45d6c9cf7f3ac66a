import pandas as pd
import pytest

from gpu_report.findings.finding import Finding
from gpu_report.findings.machines import derive_comparison
from tests.factories import make_comparison
from tests.unit.findings.editing import one

FASTER = "machines_faster/h100_x1_xeon_2c_unet_cuda"


def comparison(**cells: float | str) -> list[Finding]:
    """What follows after some cells were set in every row of the H100's U-Net."""
    frame = make_comparison()
    chosen = (frame["machine"] == "h100-x1") & (frame["workload"] == "unet") & (frame["device"] == "cuda")
    for column, value in cells.items():
        frame.loc[chosen, column] = value
    return derive_comparison(frame)


@pytest.mark.parametrize(
    ("cells", "verdict", "words"),
    [
        ({}, "yes", "faster on h100-x1 than on Xeon, 2 cores"),
        ({"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}, "no", "more slowly on h100-x1 than on Xeon, 2 cores"),
        ({"ratio_low": 0.9}, "not resolved", "the interval includes 1"),
        ({"marks": "other protocol"}, "not resolved", "another protocol"),
    ],
)
def test_the_ratio_decides_which_machine_is_faster(cells: dict[str, float | str], verdict: str, words: str) -> None:
    found = one(comparison(**cells), FASTER)

    assert found.verdict == verdict
    assert words in found.statement


def test_a_machine_that_is_faster_in_some_variants_only_decides_nothing() -> None:
    frame = make_comparison(("here", "there"))
    frame = frame[(frame["workload"] == "cnn") & (frame["device"] == "cuda")]
    frame.loc[frame.index[0], ["ratio", "ratio_low", "ratio_high"]] = [0.5, 0.4, 0.6]

    (found,) = derive_comparison(frame)

    assert found.verdict == "not resolved"
    assert "and slower in 1" in found.statement


def test_other_software_is_reported_beside_the_ratio() -> None:
    found = comparison()
    labelled = one(found, "machines_faster/h200_x1_xeon_2c_unet_cuda")

    assert "PyTorch" not in one(found, FASTER).statement
    assert labelled.statement.endswith(" Other differences: PyTorch 2.11.0 and 2.15.0.")


def test_every_statement_names_both_machines_and_no_speedup() -> None:
    found = comparison()

    assert all(any(name in each.statement for name in ("h100-x1", "h200-x1")) for each in found)
    assert all("Xeon, 2 cores" in each.statement and "speedup" not in each.statement for each in found)


def test_one_machine_alone_has_nothing_to_compare() -> None:
    assert derive_comparison(make_comparison(("alone",))) == []


def test_no_two_findings_of_a_comparison_have_one_id() -> None:
    ids = pd.Series([finding.id for finding in comparison()])

    assert ids.is_unique
