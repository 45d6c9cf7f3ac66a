"""`gpu-report reproduce` as a person calls it: what it refuses, what it measures in its time, and
its verdicts; measuring is replaced by records that are made, but for one whole run.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from gpu_report.cli import main
from gpu_report.commands import measuring, reproducing
from gpu_report.records.provenance import code_digest
from gpu_report.records.record import Record, Repetition
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.config import read_config
from gpu_report.study.machine import Machine
from gpu_report.study.study import Measurement, load_study
from gpu_report.workloads.protocol import WorkloadError
from tests.factories import make_record
from tests.machine_results import write_run

SMALL, LARGE, LARGEST = (f"cnn-small-cpu-b{batch}-w0-fp32-e3" for batch in (8, 16, 32))
RESNET = "resnet18-cpu-b8-w0-fp32-e3"
SPEEDS = {SMALL: 1000.0, LARGE: 1500.0, LARGEST: 1800.0}
PROCESS_S = 10.0
PROJECT = Path(__file__).parents[3]
KINDS = ("reproduced", "contradicted", "too close to call")
HERE = Machine(cpu_model="Xeon", cores=2, memory_gib=8)
STUDY = """
    name: small
    title: Small
    devices: [cpu]
    seed: 0
    protocol: {repetitions: 5, profile_steps: 1}
    workloads:
      cnn: {data: synthetic, train_samples: 1024, test_samples: 256}
    experiments:
      batch_size:
        question: Which batch size is fastest?
        axis: batch_size
        baseline: 8
        grid: [{workload: cnn, size: small, batch_size: [8, 16, 32], epochs: 3}]
"""


def asked(slug: str) -> Measurement:
    """What the study in the present folder asks for."""
    study = load_study(read_config(Path("study.yaml")), devices=["cpu", "cuda"], elsewhere=True)
    return study.measurement(slug)


def made(
    slug: str, speed: float, *, changed: Mapping[str, Any] | None = None, **options: Any
) -> Record:
    """As the study asks, but for what is `changed` in the measurement that the record names."""
    values = {"code_digest": code_digest(), "machine": HERE.id, "noise": 0.002, **options}
    record = make_record(slug, throughput_per_s=speed, measurement=asked(slug), **values)
    took = {"measuring_s": PROCESS_S * (len(record.repetitions) + 1)}
    measurement = {**record.measurement, **(changed or {})}
    return record.model_copy(
        update={
            "provenance": record.provenance.model_copy(update=took),
            "measurement": measurement,
        }
    )


Reproduce = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study and what was claimed, on a machine that is this one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(dedent(STUDY), "utf-8")
    monkeypatch.setattr(reproducing, "find_machine", lambda _: HERE)
    claim(tmp_path)
    return tmp_path


def claim(project: Path, **options: Any) -> None:
    """Write the records of a bundle."""
    for slug, speed in SPEEDS.items():
        folder = project / "bundle" / "runs" / slug
        shutil.rmtree(folder, ignore_errors=True)
        write_run(folder, made(slug, speed, **options))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which trainings move on."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def reproduce(
    project: Path, clock: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Reproduce:
    """The exit status and what --json has, where trainings are as fast as claimed but for
    `faster`; `measured` is what was measured.
    """

    def call(
        *arguments: str,
        faster: Mapping[str, float] | None = None,
        slower_processes: float = 1.0,
        raising: Mapping[str, Exception] | None = None,
        **options: Any,
    ) -> tuple[int, dict[str, Any]]:
        measured: list[tuple[str, int]] = []

        def measure(
            measurement: Measurement,
            *,
            processes: range,
            on_progress: Callable[[Any], None],
            **_: Any,
        ) -> Record:
            slug = measurement.variant.slug
            if error := (raising or {}).get(slug):
                raise error
            for _process in processes:
                clock[0] += PROCESS_S * slower_processes
                on_progress(None)
            measured.append((slug, len(processes)))
            whole = made(slug, SPEEDS[slug] * (faster or {}).get(slug, 1.0), **options)
            kept: list[Repetition] = [each for each in whole.repetitions if each.index in processes]
            return whole.model_copy(update={"repetitions": kept})

        monkeypatch.setattr(measuring, "measure", measure)
        numbers = tmp_path / "numbers.json"
        command = ["reproduce", "bundle", "--configfile", "study.yaml", "--json", str(numbers)]
        status = main([*command, *arguments])
        return status, {**json.loads(numbers.read_text("utf-8")), "measured": measured}

    return call


def verdicts(document: Mapping[str, Any], kind: str) -> list[str]:
    return [row["verdict"] for row in document["rows"] if row["compared"] == kind]


def test_what_comes_out_alike_is_reproduced(
    reproduce: Reproduce, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    comment = tmp_path / "comment.md"

    status, document = reproduce("--markdown", str(comment))

    headline = "9 claims: 9 reproduced, 0 contradicted, 0 too close to call"
    assert (status, document["status"], document["headline"]) == (0, 0, headline)
    printed = capfd.readouterr()
    assert printed.out.splitlines()[-1] == headline
    assert "cnn (on the CPU" not in printed.out  # there is no other device
    assert "batch size 32 over batch size 8" in printed.out
    lines = [line.partition(": ") for line in printed.err.splitlines()]
    for shown in (lines[::2], lines[1::2]):
        assert [slug for slug, _, _ in shown] == [slug for slug, _ in document["measured"]]
    assert lines[0][2] == "measuring; took 30 s in the bundle"
    assert lines[1][2].endswith(" left")
    text = comment.read_text("utf-8")
    assert text.startswith(f"### {headline}\n")
    assert "| claim | claimed | measured | verdict |" in text


def test_sides_that_the_axis_does_not_tell_apart_are_named_in_full(
    reproduce: Reproduce, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slug in (SMALL.replace("fp32", "bf16"), SMALL.replace("cpu", "cuda"), RESNET):
        monkeypatch.setitem(SPEEDS, slug, 700.0)
    more = """
      models:
        question: Which model is fastest?
        axis: workload
        baseline: cnn
        grid:
          - {workload: cnn, size: small, batch_size: 8, epochs: 3}
          - {workload: resnet18, batch_size: 8, epochs: 3}
      device:
        question: Which device is fastest?
        axis: device
        baseline: cpu
        grid:
          - {workload: cnn, size: small, device: [cpu, cuda], batch_size: 8, epochs: 3}
          - {workload: cnn, size: small, device: cpu, precision: bf16, batch_size: 8, epochs: 3}
    """
    own = "{train_samples: 1024, test_samples: 256}"
    study = dedent(STUDY).replace("workloads:\n", f"workloads:\n  resnet18: {own}\n")
    (project / "study.yaml").write_text(study + indent(dedent(more), "  "), "utf-8")
    claim(project)

    _, document = reproduce()

    named = {row["configuration"] for row in document["rows"] if row["compared"] == "speedup"}
    on_cpu = "image CNN (on the CPU, batch size 8"
    assert named >= {
        "image CNN (batch size 8, fp32): the GPU over the CPU",
        f"{on_cpu}, bf16) over {on_cpu}, fp32)",
        "training (on the CPU, batch size 8, fp32): ResNet-18 over image CNN",
    }


def test_a_ratio_that_was_falsified_is_contradicted(reproduce: Reproduce) -> None:
    status, document = reproduce(faster={LARGE: 0.7})

    assert (status, document["status"]) == (1, 1)
    assert verdicts(document, "throughput") == ["reproduced", "contradicted", "reproduced"]
    assert "contradicted" in verdicts(document, "speedup")
    assert set(verdicts(document, "held-out metric")) == {"reproduced"}


def test_other_hardware_tests_signs_alone(reproduce: Reproduce, project: Path) -> None:
    claim(project, machine="another-2c")

    status, document = reproduce(faster={LARGE: 1.3, LARGEST: 3.0})

    assert status == 0
    assert {row["compared"] for row in document["rows"]} == {"speedup", "fastest"}
    assert reproduce(faster={LARGE: 0.5, LARGEST: 3.0})[0] == 1


def test_background_load_leaves_metrics_alone_with_a_verdict(reproduce: Reproduce) -> None:
    status, document = reproduce(foreign_cpu_share=0.15)

    assert status == 2
    assert set(verdicts(document, "throughput")) == {"too close to call"}
    assert set(verdicts(document, "held-out metric")) == {"reproduced"}
    assert {row["why"] for row in document["rows"]} == {"", "background load here"}


@pytest.mark.parametrize(
    ("machine", "status", "verdict"),
    [(HERE.id, 2, "not tested"), ("another-2c", 2, "not tested")],
)
def test_a_failure_here_contradicts_nothing(
    reproduce: Reproduce, project: Path, machine: str, status: int, verdict: str
) -> None:
    claim(project, machine=machine)

    found, document = reproduce(status="oom")

    assert found == status
    assert {row["verdict"] for row in document["rows"]} == {verdict}
    assert all("out of memory here" in row["why"] for row in document["rows"])


def test_what_does_not_fit_is_not_tested_and_said_to_be_so(
    reproduce: Reproduce, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = reproduce("--minutes", "1.1")

    assert clock[0] - 1000 <= 66
    assert len(document["measured"]) == 2
    assert status == 0
    not_tested = [row for row in document["rows"] if row["verdict"] == "not tested"]
    assert len(not_tested) == 4
    assert {row["why"] for row in not_tested} == {"no time was left; raise --minutes"}
    assert document["headline"].endswith(", 4 not tested")
    assert "no time was left" in capsys.readouterr().out


def test_a_slower_machine_measures_less_and_stops_in_time(
    reproduce: Reproduce, clock: list[float]
) -> None:
    _, document = reproduce("--minutes", "2", slower_processes=3)

    assert clock[0] - 1000 <= 120 + 3 * PROCESS_S
    assert [count for _, count in document["measured"]] == [3]
    assert "not tested" in {row["verdict"] for row in document["rows"]}


def test_what_cannot_be_measured_leaves_the_other_claims(reproduce: Reproduce) -> None:
    error = WorkloadError("the file of the data is gone")

    status, document = reproduce(raising={LARGE: error})

    assert status == 0
    why = {row["why"] for row in document["rows"] if row["verdict"] == "not tested"}
    assert why == {str(error)}
    assert "reproduced" in verdicts(document, "throughput")


def test_the_fastest_is_not_reproduced_where_a_rival_is_faster(reproduce: Reproduce) -> None:
    _, document = reproduce(faster={SMALL: 3.0})

    (row,) = (row for row in document["rows"] if row["compared"] == "fastest")
    assert row["verdict"] == "too close to call"
    assert row["why"] == f"{SMALL} is faster here"


def test_configurations_that_the_study_lacks_are_counted(
    reproduce: Reproduce, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = dedent(STUDY).replace("[8, 16, 32]", "[8, 16]")
    (project / "study.yaml").write_text(study, "utf-8")

    reproduce()

    assert "1 of the bundle's configurations are not in study.yaml" in capsys.readouterr().out


def test_names_out_of_a_bundle_are_no_markup(
    reproduce: Reproduce, project: Path, tmp_path: Path
) -> None:
    hostile = "![x](http://evil/x.png) @octocat"
    claim(project, facts={"quality_name": hostile})

    reproduce("--markdown", str(tmp_path / "comment.md"))

    text = (tmp_path / "comment.md").read_text("utf-8")
    assert "evil" in text
    assert "![x](" not in text
    assert "@octocat" not in text


def test_further_processes_go_to_what_is_too_close_to_call(
    reproduce: Reproduce, clock: list[float]
) -> None:
    _, document = reproduce(noise=0.02)

    measured = document["measured"]
    assert [count for _, count in measured[:3]] == [3, 3, 3]
    assert {count for _, count in measured[3:]} == {1}
    for slug in SPEEDS:
        assert sum(count for name, count in measured if name == slug) <= 5


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_minutes_that_are_none_are_refused_in_a_line(
    project: Path, minutes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "bundle", f"--minutes={minutes}"]) == 3

    (line,) = capsys.readouterr().err.splitlines()
    assert "--minutes" in line


def test_minutes_in_words_have_the_status_of_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "bundle", "--minutes", "ten"])

    assert ended.value.code == 3


WORKLOAD = {"name": "cnn", "class_path": "gpu_report.workloads.cnn:CNNClassification"}
OTHER_CLASS = {"workload": {**WORKLOAD, "class_path": "os:system", "settings": {}}}
OTHER_FOLDER = {"workload": {**WORKLOAD, "settings": {"folder": "/elsewhere"}}}
OTHER_PROTOCOL = {"protocol": {"version": 99, "repetitions": 5, "profile_steps": 1, "odd": 1}}


@pytest.mark.parametrize(
    ("options", "arguments", "named"),
    [
        ({}, ["--minutes", "0.3"], "is too short for a single test"),
        ({"code_digest": "older"}, [], "the bundle was measured by gpu-report"),
        ({"changed": OTHER_CLASS}, [], "measured with os:system"),
        ({"changed": OTHER_FOLDER}, [], "workload.settings.folder: measured with /elsewhere"),
        ({"changed": OTHER_PROTOCOL}, [], "protocol.version: measured with 99"),
        ({"foreign_cpu_share": 0.15, "machine": "another-2c"}, [], "background load in the bundle"),
        ({"noise": 0.9, "machine": "another-2c"}, [], "no difference"),
        ({}, ["--configfile", "other.yaml"], "the bundle has no configuration of this study"),
        ({}, ["--json", "a", "--markdown", "a"], "--markdown"),
        ({}, ["--json", "bundle"], "--json: it is bundle, as BUNDLE is"),
        ({}, ["--json", "study.yaml"], "--json: it is study.yaml, as --configfile is"),
    ],
)
def test_what_cannot_be_tested_is_refused_in_a_line(
    project: Path,
    options: dict[str, Any],
    arguments: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    claim(project, **options)
    other = dedent(STUDY).replace("[8, 16, 32]", "[8, 64]").replace("epochs: 3", "epochs: 4")
    (project / "other.yaml").write_text(other, "utf-8")

    assert main(["reproduce", "bundle", "--configfile", "study.yaml", *arguments]) == 3

    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert named in line
    assert printed.out == ""


def test_a_class_of_the_users_own_that_has_changed_is_named_and_no_version_of_gpu_report(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class_path = "changed_since:Mine"
    (project / "changed_since.py").write_text("class Mine: ...\n", "utf-8")
    monkeypatch.syspath_prepend(project)
    study = dedent(STUDY).replace("cnn: {", f"cnn: {{class: '{class_path}', ")
    (project / "study.yaml").write_text(study, "utf-8")
    claim(project)

    assert main(["reproduce", "bundle", "--configfile", "study.yaml"]) == 3

    (line,) = capsys.readouterr().err.splitlines()
    assert f"the code of {class_path} has changed" in line
    assert "gpu-report 0" not in line


def test_a_reproduction_without_a_verdict_leaves_the_files_of_an_earlier_one(
    project: Path,
) -> None:
    (project / "old.json").write_text("{}")
    options = ["--configfile", "study.yaml", "--minutes", "0.3", "--json", "old.json"]

    assert main(["reproduce", "bundle", *options, "--markdown", "new.md"]) == 3

    assert (project / "old.json").read_text() == "{}"
    assert not (project / "new.md").exists()


def test_a_time_too_short_for_a_test_is_refused_at_once_with_what_the_shortest_took(
    reproduce: Reproduce, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError, match=r"numbers\.json"):
        reproduce("--minutes", "0.4")

    (line,) = capsys.readouterr().err.splitlines()
    assert "the shortest took 30 s where the bundle was measured" in line
    assert "longer here" not in line
    assert clock == [1000]


def test_a_machine_too_slow_for_a_single_test_says_what_it_began_and_that_it_takes_longer(
    reproduce: Reproduce, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError, match=r"numbers\.json"):
        reproduce("--minutes", "1", slower_processes=10)

    began, line = capfd.readouterr().err.splitlines()
    assert "measuring; took 30 s" in began
    assert "1 is too short for a single test; the shortest took 30 s" in line
    assert line.endswith("and takes longer here")


def test_where_nothing_can_be_measured_the_time_is_not_too_short(reproduce: Reproduce) -> None:
    status, document = reproduce(raising=dict.fromkeys(SPEEDS, WorkloadError("no data")))

    assert status == 2
    assert {(row["verdict"], row["why"]) for row in document["rows"]} == {("not tested", "no data")}


def test_a_folder_that_is_being_measured_is_refused_at_once(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with machine_to_itself():
        assert main(["reproduce", "bundle", "--configfile", "study.yaml"]) == 3

    (line,) = capsys.readouterr().err.splitlines()
    assert "another measurement runs" in line


@pytest.mark.slow
def test_a_bundle_of_this_machine_is_measured_again_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    tiny = PROJECT / "tests" / "workflow" / "tiny"
    for name in ("tiny.yaml", "tiny_workload.py"):
        shutil.copy(tiny / name, tmp_path)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gpu_report", *arguments, "--configfile", "tiny.yaml"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}:{tmp_path}"},
            capture_output=True,
            text=True,
            check=False,
        )

    def files() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts}

    measured = call("run", "--missing")
    assert measured.returncode == 0, measured.stderr
    before = files()

    ran = call("reproduce", "results/machines", "--minutes", "1", "--json", "numbers.json")

    document = json.loads((tmp_path / "numbers.json").read_text("utf-8"))
    assert ran.returncode == document["status"] != 3, ran.stderr
    # From the same seeds a CPU learns the same; times depend on what else the machine does.
    assert verdicts(document, "held-out metric") == ["reproduced"] * 2
    assert {row["verdict"] for row in document["rows"]} <= {*KINDS, "not tested"}
    assert files() - before == {tmp_path / "numbers.json"}


def test_a_device_that_is_not_here_leaves_its_claims_not_tested(
    reproduce: Reproduce, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "study.yaml").write_text(dedent(STUDY).replace("[cpu]", "auto"), "utf-8")
    on_gpu = [slug.replace("cpu", "cuda") for slug in SPEEDS]
    for slug, speed in zip(on_gpu, SPEEDS.values(), strict=True):
        write_run(project / "bundle" / "runs" / slug, made(slug, 10 * speed))

    status, document = reproduce()

    assert status == 0
    assert document["headline"] == (
        "18 claims: 9 reproduced, 0 contradicted, 0 too close to call, 9 not tested"
    )
    assert {row["why"] for row in document["rows"]} == {"", "this machine has no cuda"}
    for slug in SPEEDS:
        shutil.rmtree(project / "bundle" / "runs" / slug)
    capsys.readouterr()
    assert main(["reproduce", "bundle", "--configfile", "study.yaml"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "this machine has no cuda" in line
