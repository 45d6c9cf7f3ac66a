"""Each doubt is marked past its threshold, and only there."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.records.record import Record
from gpu_report.tables.marks import MEANINGS, WEAKENING, Today, is_same_code, marks_of
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise
from tests.factories import CODE_DIGEST, ENVIRONMENT, make_record, make_study
from tests.unit.tables.changed import of_class, with_measurement, with_repetitions

SLUG = "cnn-medium-cpu-b64-w0-fp32-e3"
TODAY = Today(code_digest=CODE_DIGEST)
NODE = {"other_jobs": "none"}


def marks(record: Record, today: Today = TODAY) -> list[str]:
    return marks_of(record, summarise(process_values(record)["throughput_per_s"]), today)


@pytest.mark.parametrize(
    ("mark", "quiet", "doubtful"),
    [
        ("single", {"processes": 2}, {"processes": 1}),
        ("high variance", {"noise": 0.09}, {"noise": 0.11}),
        ("background load", {"foreign_cpu_share": 0.10}, {"foreign_cpu_share": 0.11}),
        ("background load", {"foreign_cpu_share": None}, {"foreign_cpu_share": 0.11}),
        ("CPU steal", {"steal_share": 0.05}, {"steal_share": 0.06}),
        ("CPU steal", {"steal_share": None}, {"steal_share": 0.06}),
        ("diverged", {"test_loss": 1.0}, {"test_loss": math.inf}),
        ("earlier code", {"code_digest": CODE_DIGEST}, {"code_digest": "another"}),
        ("earlier code", {"status": "failed"}, {"status": "failed", "code_digest": "another"}),
        ("shared node", {"environment": NODE}, {"environment": {"other_jobs": "allowed"}}),
    ],
)
def test_a_doubt_is_marked_past_its_threshold(
    mark: str, quiet: dict[str, Any], doubtful: dict[str, Any]
) -> None:
    assert marks(make_record(SLUG, **quiet)) == []
    assert marks(make_record(SLUG, **doubtful)) == [mark]


def test_a_heavy_load_is_that_of_all_others_together_and_of_a_training_on_the_cpu() -> None:
    assert marks(make_record(SLUG, foreign_cpu_share=0.15, steal_share=0.05)) == ["background load"]
    assert marks(make_record(SLUG, foreign_cpu_share=0.15, steal_share=0.06)) == ["heavy load"]
    on_gpu = SLUG.replace("cpu", "cuda")
    assert marks(make_record(on_gpu, foreign_cpu_share=0.9)) == ["background load"]


def test_marks_come_in_the_order_of_their_meanings() -> None:
    found = marks(
        make_record(
            f"{SLUG}x5",
            processes=1,
            foreign_cpu_share=0.11,
            steal_share=0.06,
            code_digest="another",
        )
    )

    assert found == [mark for mark in MEANINGS if mark in found]
    assert {"projected", "single"} < {*found}
    assert len(found) == 5
    assert WEAKENING.keys() <= MEANINGS.keys()


def of_epochs(slug: str, speeds: list[float], **changes: Any) -> Record:
    """A record of processes whose timed epochs are so much faster than usual."""
    record = make_record(slug)
    timed = [
        [
            epoch.model_copy(update={"wall_time_s": epoch.wall_time_s / speed})
            for epoch, speed in zip(each.epochs, (1.0, *speeds), strict=True)
        ]
        for each in record.repetitions
    ]
    return with_repetitions(record, [{"epochs": epochs, **changes} for epochs in timed])


def test_epochs_that_vary_on_an_accelerator_are_the_hosts_jitter() -> None:
    on_gpu = SLUG.replace("cpu", "cuda")

    assert marks(of_epochs(on_gpu, [1.0, 1.1])) == ["host jitter"]
    assert marks(of_epochs(on_gpu, [1.0, 1.03])) == []
    assert marks(of_epochs(SLUG, [1.0, 1.1])) == []
    assert marks(of_epochs(SLUG, [1.0, 1.0], settled=False)) == ["unsettled"]


def test_a_record_made_with_other_settings_than_today_is_marked() -> None:
    study = make_study()
    slug = study.variants[0].slug
    asked = study.measurement(slug)
    same = Today.of(study, [slug])
    changed = replace(asked.workload, settings={**asked.workload.settings, "train_samples": 1})
    today = replace(same, workloads={changed.name: changed})
    record = make_record(slug, measurement=asked)

    assert "other settings" in marks(record, today)
    assert "other settings" not in marks(record, same)


def test_an_edit_to_a_users_own_workload_is_other_code() -> None:
    study = make_study()
    record = make_record(
        study.variants[0].slug, measurement=study.measurement(study.variants[0].slug)
    )
    path = record.measurement["workload"]["class_path"]

    assert is_same_code(record, Today(code_digest=CODE_DIGEST))
    edited = Today(code_digest=CODE_DIGEST, workload_digests={path: "another"})
    assert not is_same_code(record, edited)
    assert marks(record, edited) == ["other class"]


def test_a_class_that_changed_after_all_records_is_no_flag_and_one_that_changed_between_is() -> (
    None
):
    old, new = (
        of_class(make_record(SLUG, measured_at=f"2026-05-0{day}T10:00:00Z"), digest)
        for day, digest in ((3, "old"), (4, "new"))
    )
    newest = replace(TODAY, workload_digests={"my_model:MyModel": "newest"})

    assert marks(old, newest.or_newest([old])) == []
    assert marks(old, newest.or_newest([new, old])) == ["other class"]
    back = replace(TODAY, workload_digests={"my_model:MyModel": "old"}).or_newest([new, old])
    assert [marks(each, back) for each in (old, new)] == [[], ["other class"]]


ON_GPU = SLUG.replace("cpu", "cuda")


def reasons(**shares: float) -> dict[str, Any]:
    return {"telemetry": {"throttle_reasons": shares}}


@pytest.mark.parametrize(
    ("mark", "quiet", "doubtful"),
    [
        ("throttled", reasons(HwThermalSlowdown=0.01), reasons(HwThermalSlowdown=0.02)),
        ("throttled", reasons(SwThermalSlowdown=0.0), reasons(SwThermalSlowdown=0.5)),
        ("throttled", reasons(HwSlowdown=0.01), reasons(HwSlowdown=1.0)),
        ("throttled", reasons(GpuIdle=1.0), reasons(HwPowerBrakeSlowdown=0.02)),
        ("throttled", reasons(ApplicationsClocksSetting=1.0), reasons(HwThermalSlowdown=0.02)),
        ("power capped", reasons(SwPowerCap=0.5), reasons(SwPowerCap=0.51)),
        ("power capped", reasons(SwPowerCap=0.0), reasons(SwPowerCap=1.0)),
        ("shared device", {}, {"telemetry": {"other_processes": 1}}),
        ("shared device", {"telemetry": None}, {"telemetry": {"other_processes": 1}}),
    ],
)
def test_a_doubt_about_the_accelerator_is_marked_past_its_threshold(
    mark: str, quiet: dict[str, Any], doubtful: dict[str, Any]
) -> None:
    assert marks(make_record(ON_GPU, **quiet)) == []
    assert marks(make_record(ON_GPU, **doubtful)) == [mark]


@pytest.mark.parametrize(("slowest_mhz", "found"), [(1900.0, []), (1850.0, ["clock drift"])])
def test_processes_at_other_clocks_are_marked(slowest_mhz: float, found: list[str]) -> None:
    record = make_record(ON_GPU, telemetry={"sm_clock_mhz": [1980.0] * 20})
    slow = make_record(ON_GPU, telemetry={"sm_clock_mhz": [slowest_mhz] * 20}).repetitions[0]

    assert (
        marks(record.model_copy(update={"repetitions": [slow, *record.repetitions[1:]]})) == found
    )


def test_what_all_records_have_in_common_is_no_flag_of_each() -> None:
    older, newer = (
        make_record(SLUG, code_digest=digest, measured_at=f"2026-05-0{day}T10:00:00Z")
        for day, digest in ((3, "older"), (4, "newer"))
    )
    throughput = summarise(process_values(older)["throughput_per_s"])

    def flagged(*records: Record) -> list[list[str]]:
        today = TODAY.or_newest(records)
        return [marks_of(record, throughput, today) for record in records]

    assert flagged(older) == [[]]
    assert flagged(newer, older) == [[], ["earlier code"]]
    assert flagged(newer, older, make_record(SLUG)) == [["earlier code"], ["earlier code"], []]


@pytest.mark.parametrize(
    ("reference", "mark"),
    [
        (with_measurement(make_record(SLUG), "protocol", version=1), "other protocol"),
        (of_class(make_record(SLUG), "another"), "other class"),
        (make_record(SLUG, environment={**ENVIRONMENT, "torch": "2.11.0"}), "other software"),
        (make_record(SLUG, environment={**ENVIRONMENT, "torch_threads": 3}), "other threads"),
    ],
)
def test_what_the_reference_was_measured_with_is_doubted_beside_it_alone(
    reference: Record, mark: str
) -> None:
    record = of_class(make_record(SLUG), "") if mark == "other class" else make_record(SLUG)
    throughput = summarise(process_values(record)["throughput_per_s"])

    assert marks_of(record, throughput, TODAY, reference=reference) == [mark]
    assert marks_of(record, throughput, TODAY, reference=record) == []
    assert marks(reference) == [mark] * (mark in ("other protocol", "other class"))
    assert "other threads" in WEAKENING
