"""`gpu-report plan`: what would be measured, here or by jobs of a cluster."""

import re
from itertools import product
from pathlib import Path

import pytest
import yaml

from gpu_report.cli import main
from gpu_report.commands import planning
from gpu_report.commands.overview import state_of, waiting
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.records import provenance
from gpu_report.records.record import RECORD_FILE, RICH_TRACE_FOLDER, TRACE_FOLDER, Record, Status
from gpu_report.study.cluster import description_file, read_requests
from gpu_report.study.config import read_config
from gpu_report.study.machine import Accelerator, Machine, find_machine, write_description
from gpu_report.study.study import Measurement, Study, load_study
from gpu_report.workloads.protocol import WorkloadError
from tests.factories import CONFIG, ENVIRONMENT, make_record, make_records, make_study
from tests.machine_results import write_run

CI = str((CONFIG.parent / "ci.yaml").resolve())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a machine of a cluster, of which nothing is known yet."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/machines.yaml").write_text(
        "h100: {partition: gpu, cpus: 16, memory_gib: 64, minutes: 45}\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_small_study(folder: Path) -> str:
    """That of one model which trains in no time."""
    row = {
        "workload": "linear_regression",
        "device": "cpu",
        "batch_size": [8000, 16000],
        "epochs": 2,
        "steps_per_epoch": 5,
    }
    asked = {"question": "?", "axis": "batch_size", "baseline": 8000, "grid": [row]}
    config = yaml.safe_load(Path(CI).read_text("utf-8")) | {"experiments": {"batch_size": asked}}
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return str(path)


def test_a_plan_says_how_long_it_takes_and_refuses_a_budget_for_fewer_than_three_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_small_study(tmp_path)

    assert main(["plan", "--configfile", config, "--minutes", "60"]) == 0
    said = capsys.readouterr().out
    assert main(["plan", "--configfile", config, "--minutes", "0.0001"]) == 2
    refused = capsys.readouterr().err

    assert re.search(r"about [\d.]+ (s|minutes) for 3 processes of each", said)
    assert "0.0001 is too short: 3 processes of each configuration take about" in refused
    assert "no single experiment fits" in refused
    assert len(refused.splitlines()) == 1


def test_a_plan_names_what_is_measured_with_fewer_processes_than_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_small_study(tmp_path)
    settings = read_config(Path(config))
    settings["protocol"]["repetitions"] = 5
    Path(config).write_text(yaml.safe_dump(settings), "utf-8")
    here = find_machine()
    study = load_study(settings, devices=["cpu"])
    for record in make_records(
        study, machine=here.id, processes=3, environment={"cpu_cores": here.cores}
    ):
        write_run(tmp_path / "results/machines" / here.id / "runs" / record.variant, record)

    assert main(["plan", "--configfile", config]) == 0

    said = capsys.readouterr().out
    assert "all measured; these with fewer processes" in said
    assert all(variant.slug in said for variant in study.variants)


def test_a_plan_says_when_other_programs_slowed_what_it_estimates_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_small_study(tmp_path)
    for share, is_said in ((0.75, True), (0.01, False)):
        probed = make_record("linear_regression-cpu-b8000-w0-fp32-e2x5", foreign_cpu_share=share)
        monkeypatch.setattr(planning, "measure_unprofiled", lambda *_, machine, it=probed: it)

        assert main(["plan", "--configfile", config]) == 0

        said = capsys.readouterr().out
        assert ("others used 75 % of the CPU time: it may be too long" in said) == is_said


def test_no_experiment_of_an_unknown_time_is_said_to_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load(Path(CI).read_text("utf-8"))
    asked = {name: config["experiments"][name] for name in ("batch_size", "workers")}
    own = yaml.safe_load(Path(write_small_study(tmp_path)).read_text("utf-8"))["experiments"]
    config |= {"experiments": {**asked, "own": own["batch_size"]}}
    Path("study.yaml").write_text(yaml.safe_dump(config), "utf-8")
    study, here = load_study(config, devices=["cpu"]), find_machine()
    failed = study.experiments[2].variants[1].slug
    made = make_record(failed, status="failed", measurement=study.measurement(failed))
    write_run(tmp_path / "results/machines" / here.id / "runs" / failed, made)

    def probe(measurement: Measurement, **_: object) -> Record:
        variant = measurement.variant
        if variant.workload == "image_files":
            raise WorkloadError("there are no image files")
        speed = 1e9 if variant.workload == "linear_regression" else 1.0
        return make_record(variant.slug, throughput_per_s=speed)

    monkeypatch.setattr(planning, "measure_unprofiled", probe)

    assert main(["plan", "--configfile", "study.yaml", "--minutes", "5"]) == 2

    printed = capsys.readouterr()
    images = [variant.slug for variant in study.variants if variant.workload == "image_files"]
    assert len(images) == 2
    assert f"because they cannot train yet: {', '.join(images)}\n" in printed.out
    assert "each in 4 fresh processes" in printed.out
    assert printed.err.endswith("fits if it alone is the target of snakemake: own\n")


def test_a_budget_for_what_cannot_be_estimated_is_a_plan_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load(Path(write_small_study(tmp_path)).read_text("utf-8"))
    config["protocol"]["repetitions"] = 5
    Path("study.yaml").write_text(yaml.safe_dump(config), "utf-8")
    failed = make_record("linear_regression-cpu-b8000-w0-fp32-e2x5", status="failed")
    monkeypatch.setattr(planning, "measure_unprofiled", lambda *_, **__: failed)

    assert main(["plan", "--configfile", "study.yaml", "--minutes", "5"]) == 0

    assert "each in 4 to 6 fresh processes" in capsys.readouterr().out


def test_a_plan_says_whose_code_its_estimate_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(write_small_study(tmp_path))
    config = yaml.safe_load(path.read_text("utf-8"))
    config["workloads"] = {"mine": {"class": "json.decoder:JSONDecoder"}}
    row = {"workload": "mine", "device": "cpu", "batch_size": [8, 16], "epochs": 2}
    config["experiments"]["batch_size"] |= {"baseline": 8, "grid": [row]}
    path.write_text(yaml.safe_dump(config), "utf-8")

    assert main(["plan", "--configfile", str(path)]) == 0

    assert "workloads.mine runs the code of json.decoder:JSONDecoder" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_jobs_on_several_nodes_are_told_apart_and_their_hours_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config/machines.yaml"
    path.write_text("h100: {nodes: 2, cpus: 16, memory_gib: 64, minutes: 60, gpus: 1}\n", "utf-8")
    gpu = Accelerator(backend="cuda", name="H100", memory_gib=80.0)
    machine = Machine(cpu_model="Xeon", cores=16, memory_gib=64.0, accelerators=(gpu,))
    write_description(description_file("h100"), read_requests()["h100"].selection, machine)
    config = yaml.safe_load(Path(CI).read_text("utf-8"))
    row = {
        "workload": "cnn",
        "size": "small",
        "device": "cuda",
        "batch_size": 32,
        "epochs": 1,
        "parallelism": ["single", "ddp"],
    }
    device = {"question": "?", "axis": "parallelism", "baseline": "single", "grid": [row]}
    (tmp_path / "study.yaml").write_text(
        yaml.safe_dump({**config, "experiments": {"scaling": device}}), "utf-8"
    )

    assert main(["plan", "--configfile", "study.yaml", "--machines", "h100"]) == 0
    said = capsys.readouterr().out

    assert "-ddp2" in said
    assert "3 jobs" in said
    assert "1 of them on 2 such nodes" in said
    assert "4 hours" in said


def test_code_without_a_commit_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_PACKAGE", tmp_path)

    assert main(["plan", "--configfile", write_small_study(tmp_path)]) == 0

    said = capsys.readouterr().out
    assert re.search(r": \d+ configurations? on ", said)
    (note,) = (line for line in said.splitlines() if "commit" in line)
    assert "not a git repository" in note


def results_with(record: Record, study: Study, folder: Path) -> ResultsFolder:
    """A machine's results that have this record and its traces."""
    results = ResultsFolder(resolved=ResolvedStudy.of("xeon-8c", study), machine_folder=folder)
    RECORD_FILE.write(record, results.record_file(record.variant))
    traces = [record.profile.trace_file] if record.profile else []
    for name, trace in product((TRACE_FOLDER, RICH_TRACE_FOLDER), traces):
        path = results.record_file(record.variant).parent / name / trace
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return results


@pytest.mark.parametrize(
    ("setting", "threads", "state"),
    [("", 8, "measured"), ("", 1, "out of date"), ("1", 1, "measured"), ("1", 8, "out of date")],
)
def test_a_record_of_other_threads_than_are_asked_for_is_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, threads: int, state: str
) -> None:
    monkeypatch.setenv("GPU_REPORT_THREADS", setting)
    study = make_study(devices=["cpu"])
    variant = study.variants[0]
    environment = {**ENVIRONMENT, "cpu_cores": 8, "torch_threads": threads}
    record = make_record(
        variant.slug, measurement=study.measurement(variant.slug), environment=environment
    )
    results = results_with(record, study, tmp_path)

    assert state_of(results, variant)[0] == state
    assert (variant.slug in waiting(results, [variant])) == (state == "out of date")


@pytest.mark.parametrize("status", ["ok", "failed"])
def test_a_record_of_a_class_that_has_changed_since_is_out_of_date_and_says_what_to_type(
    tmp_path: Path, status: Status
) -> None:
    study = make_study(devices=["cpu"])
    variant = study.variants[0]
    record = make_record(variant.slug, measurement=study.measurement(variant.slug), status=status)
    edited = record.model_copy(
        update={"provenance": record.provenance.model_copy(update={"workload_digest": "before"})}
    )
    results = results_with(edited, study, tmp_path)
    path = record.measurement["workload"]["class_path"]

    assert state_of(results, variant) == (
        "out of date",
        f"your class {path} has changed since; measure it again with gpu-report run {variant.slug}",
    )
    assert waiting(results, [variant]) == [variant.slug]
