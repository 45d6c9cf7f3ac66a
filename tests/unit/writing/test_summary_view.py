from dataclasses import replace

from gpu_report.writing.limits import doubts
from gpu_report.writing.machine_view import MachineView
from gpu_report.writing.summary_table import summary_table
from gpu_report.writing.summary_view import SummaryView
from tests.report.synthetic import results_on

MACHINE = MachineView(results=results_on("cpu", "cuda"))


def summary() -> SummaryView:
    return SummaryView(
        machine=MACHINE.id,
        rows=MACHINE.variants,
        experiments=MACHINE.experiments,
        decided=MACHINE.decided,
        recommended=MACHINE.recommendations,
    )


def test_a_summary_has_no_more_than_a_page_has_room_for() -> None:
    said = summary()

    assert 0 < len(said.table.rows) <= 14
    assert 0 < len(said.findings) <= 5
    assert 0 < len(said.recommendations) <= 3


def test_the_findings_are_those_of_greatest_gain_in_the_order_of_the_experiments() -> None:
    said = summary().findings

    gains = sorted((view.finding.gain or 0.0 for view in MACHINE.decided if len(view.statement) < 300), reverse=True)
    assert sorted((view.finding.gain or 0.0 for view in said), reverse=True) == gains[: len(said)]
    assert [view for view in MACHINE.decided if view in said] == said


def test_a_finding_that_would_fill_the_page_is_left_to_its_section() -> None:
    long = MACHINE.decided[0]
    long = replace(long, finding=long.finding.model_copy(update={"statement": "word " * 100, "gain": 1e6}))

    said = replace(summary(), decided=[long, *MACHINE.decided[1:]]).findings

    assert long not in said


def test_a_table_too_long_for_a_summary_keeps_the_greatest_gains_and_says_how_many_are_left_out() -> None:
    whole, short = (summary_table(MACHINE.experiments, most_rows=most) for most in (1000, 3))

    assert len(short.rows) == 3
    assert any(f"Left out: {len(whole.rows) - 3} " in str(note) for note in short.notes)
    assert not any("Left out" in str(note) for note in whole.notes)


def test_doubts_count_what_is_missing_and_name_no_variant() -> None:
    told = doubts(MACHINE.variants)

    assert str(told[0]).startswith(
        f"{len(MACHINE.unmeasured)} of {len(MACHINE.variants)} variants could not be measured"
    )
    assert not any("gpurepname" in sentence for sentence in told)


def test_without_a_missing_variant_no_doubt_tells_of_one() -> None:
    assert not any("could not be measured" in sentence for sentence in doubts(MACHINE.measured))
