from gpu_report.findings.finding import Evidence, Finding, Verdict
from gpu_report.writing.finding_view import in_a_row


def finding(*values: str, verdict: Verdict = "supported") -> Finding:
    evidence = [Evidence(label="throughput", value=value, table="device", variant="cnn") for value in values]
    return Finding(
        id="device_faster/cnn",
        experiment="device",
        question="Which is faster?",
        verdict=verdict,
        statement="One is.",
        evidence=tuple(evidence),
        threshold="More is.",
    )


def test_evidence_is_given_in_full_once() -> None:
    first, second = in_a_row([finding("1", "2"), finding("2", "3")])

    assert "; 2 (" in first.evidence
    assert "2 (" not in second.evidence
    assert "throughput 3" in second.evidence


def test_what_rests_on_numbers_that_were_given_says_so() -> None:
    _, second = in_a_row([finding("1", "2", "3"), finding("1", "2", "3", "4")])

    assert second.evidence == "numbers given above; 1 more in device.csv"


def test_evidence_is_given_without_words_that_are_the_same_everywhere() -> None:
    (view,) = in_a_row([finding("9 s (95 % interval 8 to 10, 3 processes)", "7 s (1 process)", "5 of 6 processes")])

    assert view.evidence == (
        r"throughput 9\,s (8 to 10) (\gpurepname{cnn}); 7\,s (\gpurepname{cnn}); 5 of 6 processes (\gpurepname{cnn})"
    )


def test_a_gain_is_told_with_its_interval() -> None:
    (view,) = in_a_row([finding("1").model_copy(update={"gain": 2.0, "gain_interval": (1.5, 2.5)})])

    assert view.gain_text == "2.00× (1.50 to 2.50)"


def test_a_recommendation_without_a_measured_gain_rests_on_the_statement() -> None:
    without, measured = in_a_row([finding("1"), finding("1").model_copy(update={"gain": 2.0})])

    assert (without.reason, measured.reason) == ("One is.", "")


def test_evidence_beyond_the_first_three_is_counted_and_given_by_the_next_that_rests_on_it() -> None:
    first, second = in_a_row([finding("1", "2", "3", "4"), finding("4")])

    assert first.evidence.endswith("1 more in device.csv")
    assert "throughput 4" in second.evidence


def test_evidence_of_a_finding_told_in_short_counts_as_not_given() -> None:
    _, second = in_a_row([finding("1", verdict="not measured"), finding("1")])

    assert "throughput 1" in second.evidence


def test_a_recommendation_names_the_section_that_its_finding_stands_in() -> None:
    (view,) = in_a_row([finding("1")])
    (of_study,) = in_a_row([finding("1").model_copy(update={"experiment": "study"})])

    assert (view.section, of_study.section) == ("device", "reliability")
