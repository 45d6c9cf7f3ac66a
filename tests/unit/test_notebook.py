"""What a notebook shows are the rows of the tables, with numbers as the report prints them."""

import os
from pathlib import Path

import pytest

from gpu_report.commands.published import tabulate
from gpu_report.commands.results_folder import ResolvedStudy
from gpu_report.errors import BundleError, ReportError
from gpu_report.figures.declaration import FigureSpec
from gpu_report.glossary import METRICS
from gpu_report.notebook import (
    answers,
    figure,
    read_bundle,
    read_results,
    readable,
    rows_of_workload,
)
from gpu_report.tables.bundle import rows_of
from gpu_report.writing.table import metric
from tests.factories import make_study
from tests.machine_results import write_results
from tests.report.synthetic import results_on


def test_numbers_are_written_as_in_the_report_and_a_dash_where_there_is_none() -> None:
    table = results_on("cpu", "cuda").tables.experiments["device"]

    shown = readable(table, ["throughput", "break_even", metric("parameters", "weights", "count")])

    expected = [each.plain() for each in METRICS["throughput_per_s"].quantities(rows_of(table))]
    assert [*shown["throughput"]] == expected
    assert {*shown.iloc[:, 1]} == {"–"}
    assert all(text.replace(",", "").isdigit() for text in shown["weights"])
    assert any("GPU" in name for name in shown.index)


def test_the_results_that_were_tabulated_last_are_read(tmp_path: Path) -> None:
    study = make_study(devices=("cpu",)).alone("batch_size")
    for age, machine in enumerate(["xeon-4c", "xeon-2c"]):
        folder = write_results(tmp_path / "results/machines", study, machine=machine)
        tabulate(folder, ResolvedStudy.of(machine, study))
        os.utime(folder / "findings.json", (age, age))

    found = read_results(tmp_path, workload="cnn", otherwise="")

    assert found.id == read_results(tmp_path, otherwise="").id == "xeon-2c"
    assert not rows_of_workload(found, "batch_size", "cnn").empty
    assert isinstance(figure(found, found.figures[0].name), FigureSpec)
    with pytest.raises(BundleError, match=r"published/h100\.tar\.xz"):
        read_results(tmp_path, workload="unet", otherwise="h100")


def test_results_are_read_after_another_study_was_asked_for_and_passed_over_where_a_file_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = make_study(devices=("cpu",))
    study = asked.alone("batch_size")
    for age, machine in enumerate(["xeon-4c", "xeon-2c"]):
        newest = write_results(tmp_path / "results/machines", study, machine=machine)
        tabulate(newest, ResolvedStudy.of(machine, study))
        os.utime(newest / "findings.json", (age, age))

    ResolvedStudy.of("xeon-2c", asked).write(newest)
    with_another = read_results(tmp_path, otherwise="")
    (newest / "tables/batch_size.csv").rename(tmp_path / "held")
    without_table = read_results(tmp_path, otherwise="")
    (tmp_path / "held").rename(newest / "tables/batch_size.csv")
    (newest / "tables/study.json").unlink()  # which older versions did not write
    ResolvedStudy.of("xeon-2c", study).write(newest)
    of_older_version = read_results(tmp_path, otherwise="")

    assert [each.name for each in with_another.experiments] == ["batch_size"]
    assert with_another.id == "xeon-2c"
    assert without_table.id == "xeon-4c"
    assert of_older_version.id == "xeon-2c"
    where, _, why = capsys.readouterr().out.strip().partition(": ")
    assert where.endswith(str(newest))
    assert "batch_size.csv" in why


def test_without_any_those_of_the_published_machine_are_read(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"cannot read bundle .*published/h100\.tar\.xz"):
        read_results(tmp_path, otherwise="h100")


def test_what_was_not_measured_is_said_in_its_place() -> None:
    machine = results_on("cpu")

    shown = readable(rows_of_workload(machine, "precision", "unet"), ["throughput", "speedup"])

    assert shown.to_numpy().tolist() == [["–", "–"]]
    assert "not measured" in shown.index[0]
    assert "not measured" in str(figure(machine, "precision_speedup"))
    assert "no answers" in answers(machine, "precision")
    assert "no answers" not in answers(machine, "batch_size")


def test_a_metric_or_a_bundle_that_is_not_there_is_named() -> None:
    with pytest.raises(ReportError, match="there is no metric 'speed'"):
        readable(results_on("cpu").tables.variants, ["speed"])
    with pytest.raises(BundleError, match=r"cannot read bundle nothing\.tar\.xz"):
        read_bundle("nothing.tar.xz", study="config/study.yaml")
