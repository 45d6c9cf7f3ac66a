import math

import pytest

from tests.unit.findings.editing import ACROSS_WORKLOADS, Case, Edit

BACKWARD = f"{ACROSS_WORKLOADS}_backward/cpu"
CONVOLUTIONS = f"{ACROSS_WORKLOADS}_convolutions/cpu"
LSTM = "lstm-cpu-b32-w0-fp32-e3"


def phase(name: str, **cells: object) -> Edit:
    return Edit(table="phases", where={"phase": name}, cells=cells)


EVERYWHERE = Edit(table="phases", where={}, cells={"convolution_share": 0.1})
LOST = Edit(table=ACROSS_WORKLOADS, where={}, cells={"status": "failed", "reason": "RuntimeError: no"})
CASES = [
    Case(finding=BACKWARD, verdict="yes", edits=[phase("backward", share=0.6)]),
    Case(finding=BACKWARD, verdict="no", edits=[phase("backward", share=0.4)]),
    Case(
        finding=BACKWARD,
        verdict="no",
        edits=[
            phase("backward", share=0.6),
            Edit(table="phases", where={"phase": "backward", "variant": LSTM}, cells={"share": 0.3}),
        ],
    ),
    Case(finding=BACKWARD, verdict="not measured", edits=[LOST]),
    Case(finding=CONVOLUTIONS, verdict="yes", edits=[phase("backward", share=0.6, convolution_share=1.0)]),
    Case(
        finding=CONVOLUTIONS,
        verdict="no",
        edits=[EVERYWHERE],
    ),
    Case(finding=CONVOLUTIONS, verdict="not measured", edits=[LOST]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_share_of_convolutions_is_that_of_all_phases() -> None:
    edits = [phase("forward", share=0.5, convolution_share=0.5), phase("backward", share=0.5, convolution_share=1.0)]

    found = Case(finding=CONVOLUTIONS, verdict="yes", edits=edits).derive()

    assert "bidirectional LSTM 75.0 %" in found.statement


def test_phases_that_a_trace_does_not_tell_are_no_lack_of_a_profile() -> None:
    gone = Edit(table="phases", where={}, cells={"share": math.nan})

    found = Case(finding=BACKWARD, verdict="not measured", edits=[gone]).derive()

    assert found.verdict == "not measured"
    assert f"the trace of {LSTM} is not reliable" in found.statement
