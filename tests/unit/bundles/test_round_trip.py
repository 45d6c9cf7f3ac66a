"""What is packed comes out again, and equal results give equal bytes wherever they are packed."""

import json
import os
import shlex
import shutil
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path

import pytest

from gpu_report.bundles.manifest import Manifest
from gpu_report.bundles.packing import pack
from gpu_report.bundles.unpacking import read_manifest, unpack
from gpu_report.cli import main
from gpu_report.commands import measuring
from gpu_report.errors import BundleError, GpuReportError
from gpu_report.records.batch_sizes import SEARCH_FILE
from gpu_report.records.record import RECORD_FILE
from gpu_report.storage.files import write_bytes_atomically
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import read_trace_tables
from tests.factories import make_record, make_study
from tests.machine_results import write_results, write_run
from tests.searches import CONFIG as SEARCHING
from tests.searches import make_search

MACHINE = "h100-80gb-x1-xeon-16c"
TRACE = Path(__file__).parents[2] / "data/traces/unet_cuda.pt.trace.json.gz"
SLUGS = [variant.slug for variant in make_study().variants[:3]]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path / "machines", make_study(), machine=MACHINE, variants=SLUGS)


def packed(
    results: Path,
    target: Path,
    *,
    with_traces: bool = False,
    asked: Collection[str] | None = None,
    allow_dirty: bool = False,
) -> tuple[Manifest, dict[str, str]]:
    return pack(
        results,
        target,
        machine=results.name,
        study="default",
        with_traces=with_traces,
        asked=asked,
        allow_dirty=allow_dirty,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_same_results_give_the_same_bytes_in_another_folder_at_another_time(
    results: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(results, tmp_path / "elsewhere" / MACHINE)
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))

    packed(results, tmp_path / "one.tar.xz")
    packed(copy, tmp_path / "two.tar.xz")

    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()


def test_only_an_older_bundle_of_the_same_machine_and_study_is_replaced(
    results: Path, tmp_path: Path
) -> None:
    mine, other, own = (tmp_path / name for name in ("notes.txt", "other.tar.xz", "own.tar.xz"))
    mine.write_text("mine", "utf-8")
    pack(results, other, machine=MACHINE, study="other", with_traces=False)
    before = other.read_bytes()
    packed(results, own)

    for target in (mine, other, tmp_path):
        with pytest.raises(BundleError, match=target.name):
            packed(results, target)
    with pytest.raises(BundleError, match="without traces"):
        packed(results, own, with_traces=True)
    shutil.rmtree(results / "runs" / SLUGS[0])
    packed(results, own)

    assert mine.read_text("utf-8") == "mine"
    assert other.read_bytes() == before
    assert read_manifest(own).records == len(SLUGS) - 1


def test_only_what_the_study_asks_for_is_packed_and_the_rest_is_named_and_keeps_nothing_back(
    results: Path, tmp_path: Path
) -> None:
    search = make_search(make_study(config=SEARCHING).searches[0], machine=MACHINE)
    SEARCH_FILE.write(search, results / f"batch_sizes/{search.search.slug}.json")
    replace_provenance(results, SLUGS[2], git_dirty=True)
    others = {SLUGS[2], search.search.slug}

    manifest, left_out = packed(results, tmp_path / "bundle.tar.xz", asked=SLUGS[:2])
    whole, _ = packed(results, tmp_path / "whole.tar.xz", allow_dirty=True)

    assert sorted(manifest.variants) == sorted(SLUGS[:2])
    assert manifest.searches == []
    assert left_out.keys() == {*others}
    assert all("--traces" in why for why in left_out.values())
    assert others < {*whole.variants, *whole.searches}
    with pytest.raises(BundleError, match=r"nothing to pack in .* not in the study"):
        packed(results, tmp_path / "none.tar.xz", asked=[])


def test_the_manifest_says_whose_results_these_are(results: Path, tmp_path: Path) -> None:
    packed(results, tmp_path / "bundle.tar.xz")

    manifest = read_manifest(tmp_path / "bundle.tar.xz")

    assert (manifest.machine, manifest.study, manifest.records) == (MACHINE, "default", 3)
    assert sorted(manifest.variants) == sorted(SLUGS)
    assert manifest.devices == ["cpu", "cuda"]
    assert "NVIDIA H100 80GB HBM3" in manifest.hardware
    assert (
        manifest.measured_at
        == RECORD_FILE.read(results / "runs" / SLUGS[0] / "record.json").provenance.measured_at
    )


def test_with_traces_every_file_comes_out_as_it_went_in(results: Path, tmp_path: Path) -> None:
    packed(results, tmp_path / "bundle.tar.xz", with_traces=True)

    _, manifest, kept = unpack(tmp_path / "bundle.tar.xz", tmp_path / "other")

    assert (sorted(manifest.variants), kept) == (sorted(SLUGS), [])
    assert files_of(tmp_path / "other" / MACHINE) == files_of(results)
    assert not list((tmp_path / "other").glob(".*"))


def test_a_variant_that_is_measured_there_already_stays_as_it_is(
    results: Path, tmp_path: Path
) -> None:
    packed(results, tmp_path / "bundle.tar.xz", with_traces=True)
    own = make_record(SLUGS[0], machine=MACHINE, throughput_per_s=1.0)
    write_run(tmp_path / "other" / MACHINE / "runs" / SLUGS[0], own)

    _, _, kept = unpack(tmp_path / "bundle.tar.xz", tmp_path / "other")

    assert kept == [SLUGS[0]]
    assert RECORD_FILE.read(tmp_path / "other" / MACHINE / "runs" / SLUGS[0] / "record.json") == own


def replace_provenance(results: Path, slug: str, **changes: object) -> None:
    path = results / "runs" / slug / "record.json"
    record = json.loads(path.read_text("utf-8"))
    record["provenance"] |= changes
    path.write_text(json.dumps(record), "utf-8")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"git_dirty": True, "changed_files": ["src/gpu_report/a.py", "Makefile"]},
            "src/gpu_report/a.py, Makefile",
        ),
        ({"git_dirty": True}, "are not known"),
        ({"git_commit": None, "git_dirty": None}, "no commit"),
    ],
)
def test_a_record_whose_code_no_commit_holds_is_packed_on_demand_alone_and_counted(
    results: Path, tmp_path: Path, changes: dict[str, object], named: str
) -> None:
    replace_provenance(results, SLUGS[1], **changes)

    with pytest.raises(BundleError, match=named) as refusal:
        packed(results, tmp_path / "bundle.tar.xz")
    packed(results, tmp_path / "bundle.tar.xz", allow_dirty=True)

    assert "1 of 4 measurements" in str(refusal.value)
    assert read_manifest(tmp_path / "bundle.tar.xz").dirty_records == 1


def test_a_rich_trace_goes_along_and_its_lack_leaves_the_variant_out(
    results: Path, tmp_path: Path
) -> None:
    run = results / "runs" / SLUGS[0]
    record = RECORD_FILE.read(run / "record.json")
    assert record.profile is not None
    profile = record.profile.model_copy(update={"rich_trace_file": "rank0.pt.trace.json.gz"})
    RECORD_FILE.write(record.model_copy(update={"profile": profile}), run / "record.json")

    _, left_out = packed(results, tmp_path / "without.tar.xz", with_traces=True)
    assert left_out == {
        SLUGS[0]: f"its trace is gone; measure it again with gpu-report run {SLUGS[0]}"
    }

    write_bytes_atomically(run / "rich_trace" / profile.rich_trace_file, b"rich")
    packed(results, tmp_path / "with.tar.xz", with_traces=True)
    unpack(tmp_path / "with.tar.xz", tmp_path / "other")
    unpacked = tmp_path / "other" / MACHINE / "runs" / SLUGS[0]
    assert (unpacked / "rich_trace" / profile.rich_trace_file).read_bytes() == b"rich"


def test_what_cannot_be_tabulated_or_is_of_an_older_schema_is_left_out_and_reported(
    results: Path, tmp_path: Path
) -> None:
    shutil.rmtree(results / "runs" / SLUGS[0] / "trace_tables")
    shutil.rmtree(results / "runs" / SLUGS[0] / "trace")
    (results / "runs" / SLUGS[1] / "record.json").write_text('{"schema_version": 1}', "utf-8")

    manifest, left_out = packed(results, tmp_path / "bundle.tar.xz")

    assert manifest.variants == [SLUGS[2]]
    assert f"measure the configuration again with: gpu-report run {SLUGS[0]}" in left_out[SLUGS[0]]
    assert "schema version 1" in left_out[SLUGS[1]]


def put_a_trace(run: Path) -> None:
    """One whose tables have rows; tables that are there are of an earlier measurement."""
    record = RECORD_FILE.read(run / "record.json")
    assert record.profile
    shutil.copy2(TRACE, run / "trace" / record.profile.trace_file)
    make_old(run / "trace_tables")


def make_old(folder: Path) -> None:
    for path in folder.glob("*"):
        os.utime(path, (1, 1))


def test_tables_of_an_earlier_trace_are_never_packed_beside_a_newer_record(
    results: Path, tmp_path: Path
) -> None:
    table = f"runs/{SLUGS[0]}/trace_tables/steps.csv"
    put_a_trace(results / "runs" / SLUGS[0])

    with_traces, _ = packed(results, tmp_path / "with-traces.tar.xz", with_traces=True)
    packed(results, tmp_path / "bundle.tar.xz")

    unpack(tmp_path / "bundle.tar.xz", tmp_path / "other")
    assert table not in [entry.path for entry in with_traces.files]
    assert len(read_trace_tables((tmp_path / "other" / MACHINE / table).parent)[STEPS]) > 0


@pytest.mark.slow
def test_a_bundle_to_publish_that_is_too_large_says_what_takes_the_room(
    results: Path, tmp_path: Path
) -> None:
    target = tmp_path / "bundle.tar.xz"
    packed(results, target)
    of_yesterday = target.read_bytes()
    table = results / "runs" / SLUGS[0] / "trace_tables/operations.csv"
    rows = "".join(
        f"{os.urandom(60_000).hex()},cpu,other,1,1.0,1.0,1.0,1.0,1.0,1.0\n" for _ in range(35)
    )
    table.write_text(table.read_text("utf-8") + rows, "utf-8")

    with pytest.raises(
        BundleError, match=rf"of at most 2 MB.*{SLUGS[0]}/trace_tables/operations.csv \(4201 kB\)"
    ):
        packed(results, target)

    assert target.read_bytes() == of_yesterday


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("runs", "no configuration is measured; gpu-report run --missing measures"),
        ("calibration.json", "calibrate with: gpu-report calibrate --machine"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_makes_it(
    results: Path, tmp_path: Path, missing: str, message: str
) -> None:
    (results / missing).rename(tmp_path / "taken away")

    with pytest.raises(GpuReportError, match=message):
        packed(results, tmp_path / "bundle.tar.xz")


def test_the_command_that_calibrates_is_one_of_gpu_report_with_all_devices(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "calibration.json").unlink()
    calibrated: list[Namespace] = []
    monkeypatch.setattr(measuring, "calibrate", calibrated.append)

    with pytest.raises(BundleError) as refused:
        packed(results, tmp_path / "bundle.tar.xz")
    command = str(refused.value).partition("gpu-report ")[2]
    main(shlex.split(command))

    (asked,) = calibrated
    assert (asked.machine, asked.calibration) == (MACHINE, results / "calibration.json")
    assert asked.devices == ["cpu", "cuda"]
