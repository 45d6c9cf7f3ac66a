import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.printing.number_format import in_minutes
from gpu_report.records.record import Record
from gpu_report.writing.citation import artifact_paragraph, measurements_entry, software_entry
from tests.factories import make_record, make_study
from tests.report.synthetic import render_machines, results_of

SLUGS = ("unet-64px-cuda-b8-w0-fp32-e3", "unet-64px-cuda-b16-w0-fp32-e3")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A file that stands for one: only its bytes count."""
    (tmp_path / "bundle.tar.xz").write_bytes(b"records")
    return tmp_path / "bundle.tar.xz"


SHA256 = hashlib.sha256(b"records").hexdigest()


def paragraph(records: Sequence[Record]) -> str:
    return artifact_paragraph(records, disk="1 MiB", rebuilt="Rebuild it.")


def changed(record: Record, **provenance: object) -> Record:
    update = {"provenance": record.provenance.model_copy(update=provenance)}
    return record.model_copy(update=update)


def test_measurements_are_cited_by_study_hardware_date_version_commit_protocol_and_checksum(
    bundle: Path,
) -> None:
    entry = measurements_entry(
        [make_record(SLUGS[0], machine="h100-x1")], title="A study", bundle=bundle
    )

    assert entry == (
        "@misc{gpu-report-h100-x1,\n"
        "  title = {{A study: measurements on NVIDIA H100 80GB HBM3, Intel Xeon, 2 cores}},\n"
        "  year = {2026},\n"
        "  key = {gpu-report},\n"
        "  howpublished = {Measured 2026-05-04 with gpu-report 0.1.0 (commit 8f007a5c0ffe), "
        "protocol version 4},\n"
        f"  note = {{Bundle with SHA-256 {SHA256}}}}}"
    )


def test_without_commit_and_bundle_neither_is_cited() -> None:
    record = changed(make_record(SLUGS[0]), git_commit=None, git_dirty=None)

    entry = measurements_entry([record], title="A study")

    assert "commit" not in entry
    assert "SHA-256" not in entry


def test_special_characters_of_a_title_are_escaped_and_braces_balance_as_bibtex_counts_them() -> (
    None
):
    entry = measurements_entry([make_record(SLUGS[0])], title=r"5% of {$x_1 & #2 ~ \today^")

    assert r"5\% of \textbraceleft{}\$x\_1 \& \#2" in entry
    assert r"\textbackslash{}today" in entry
    assert entry.count("{") == entry.count("}")


def test_keys_have_small_letters_digits_hyphens_and_underscores() -> None:
    entries = [software_entry(), measurements_entry([make_record(SLUGS[0])], title="A study")]

    assert all(re.match(r"@[a-z]+\{[a-z0-9_-]+,\n", entry) for entry in entries)


def test_the_hours_are_those_of_measuring_where_every_record_has_them() -> None:
    records = [changed(make_record(slug), measuring_s=1800.0) for slug in SLUGS]

    assert "Measuring them took 60.0 minutes of wall time." in paragraph(records)
    short = changed(make_record(SLUGS[0]), measuring_s=45.0)
    assert "Measuring them took 45 s of wall time." in paragraph([short])


def test_the_hours_are_those_of_the_processes_where_a_record_says_no_more() -> None:
    older = make_record(SLUGS[0])
    processes_s = sum(
        each.build_time_s + each.preparation_time_s + each.training_wall_s
        for each in older.repetitions
    )

    text = paragraph([older])

    assert f"training took {in_minutes(processes_s)} of wall time" in text
    assert "profiling was not measured" in text


@pytest.mark.parametrize(
    ("telemetry", "said"),
    [
        ({"energy_j": 720.0}, "The GPU used 1.00 Wh in the timed epochs of the 5 processes"),
        ({"energy_j": None}, "The energy was not measured."),
        (None, "The energy was not measured."),
    ],
)
def test_the_energy_is_the_sum_over_the_processes_that_have_it(
    telemetry: dict[str, float | None] | None, said: str
) -> None:
    assert said in paragraph([make_record(SLUGS[0], telemetry=telemetry)])


def test_the_energy_says_how_many_processes_it_is_of() -> None:
    with_energy, without = (
        make_record(slug, telemetry={"energy_j": energy_j})
        for slug, energy_j in zip(SLUGS, (720.0, None), strict=True)
    )

    text = paragraph([with_energy, without])
    assert "in 10 fresh processes" in text
    assert "of the 5 processes whose energy was measured." in text


def test_a_machine_without_a_gpu_has_no_cuda_in_its_paragraph() -> None:
    text = paragraph([make_record("unet-64px-cpu-b8-w0-fp32-e3")])

    assert text.startswith("Hardware: Intel Xeon, 2 cores, 7.8 GiB of main memory. Software: PyTor")
    assert "CUDA" not in text


def test_the_last_page_has_the_command_and_the_entry_with_the_checksum_of_the_bundle(
    bundle: Path,
) -> None:
    study = make_study(devices=("cpu",)).alone("batch_size")
    machine = replace(results_of(study), bundle=bundle)

    page = render_machines(study, [machine])["sections/appendix.tex"].replace(r"\gpurepbreak{}", "")

    assert r"\gpurepname{gpu-report cite xeon-2c}" in page
    assert SHA256 in page
    assert f"title = \\{{\\{{{study.title}: measurements on Intel Xeon, 2 cores" in page
