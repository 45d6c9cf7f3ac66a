import math
import re
from dataclasses import replace
from random import Random

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_report.answers.finding import findings_to_json, recommendations
from gpu_report.answers.questions import derive_findings
from gpu_report.tables.bundle import Tables
from tests.factories import make_records, make_tables, with_tables
from tests.unit.answers.editing import base
from tests.unit.figures.drawn import study_of

HOLED = (
    *("variants", "consistency", "efficiency", "transfers", "crossovers"),
    *("phases", "step_shares", "convergence"),
)


def test_no_two_findings_have_one_id() -> None:
    tables, study = base()
    ids = [finding.id for finding in derive_findings(tables, study.experiments)]

    assert len(set(ids)) == len(ids)


def test_a_study_in_which_everything_failed_measures_nothing_and_says_so() -> None:
    study = base()[1]
    tables = make_tables(study, make_records(study, status="failed"))

    found = derive_findings(tables, study.experiments)

    assert {finding.verdict for finding in found} == {"not measured"}


def test_a_machine_without_an_accelerator_has_no_statement_about_what_one_does() -> None:
    tables, study = base(("cpu",))
    found = derive_findings(tables, study.experiments)
    claims = [finding for finding in found if finding.verdict != "not measured"]
    texts = [
        text
        for finding in claims
        for text in (
            finding.statement,
            finding.recommendation,
            *(evidence.value for evidence in finding.evidence),
        )
    ]

    assert not [
        text
        for text in texts
        if "cuda" in text.lower() or "gpu" in text.lower() or "accelerator" in text
    ]
    assert {finding.verdict for finding in found if finding.experiment == "device"} == {
        "not measured"
    }


def test_three_processes_decide_what_differs_clearly_and_two_decide_nothing() -> None:
    study = study_of("device")
    of_two, of_three = (
        derive_findings(
            make_tables(study, make_records(study, processes=processes)), study.experiments
        )
        for processes in (2, 3)
    )

    compared = [finding for finding in of_two if "2 processes give no" in finding.statement]
    by_id = {finding.id: finding for finding in of_three}
    assert compared
    assert {finding.verdict for finding in compared} == {"too close to call"}
    for finding in compared:
        assert by_id[finding.id].verdict in ("yes", "no")
        assert re.search(r"95 % interval .+, 3 processes", by_id[finding.id].statement)


def test_what_is_recommended_follows_from_a_finding_that_was_measured() -> None:
    tables, study = base()

    for finding in recommendations(derive_findings(tables, study.experiments)):
        assert finding.verdict != "not measured"
        assert finding.gain is None or (
            finding.gain > 1 and (finding.gain_interval or (0.0,))[0] > 1
        )


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.1, 0.3, 1.0]))
def test_numbers_missing_anywhere_stop_no_finding_and_show_in_none(seed: int, share: float) -> None:
    tables, study = base()
    holed = _with_holes(tables, Random(seed), share)

    text = findings_to_json(derive_findings(holed, study.experiments))

    assert "nan" not in text.lower()


def _with_holes(tables: Tables, random: Random, share: float) -> Tables:
    def holed(frame: pd.DataFrame) -> pd.DataFrame:
        holes = {
            name: [math.nan if random.random() < share else value for value in frame[name]]
            for name in frame.select_dtypes("float64").columns
        }
        return frame.assign(**holes)

    changed = {name: holed(getattr(tables, name)) for name in HOLED}
    experiments = {name: holed(frame) for name, frame in tables.experiments.items()}
    return with_tables(replace(tables, experiments=experiments), **changed)
