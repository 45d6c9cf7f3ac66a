"""Each mistake ends in one line that names the key or file and the mend, and loses nothing."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gpu_report.commands.results_folder import ResolvedStudy
from gpu_report.study.config import read_config
from gpu_report.study.machine import find_machine
from gpu_report.study.study import load_study

from .conftest import PDF, TINY, Project


def error_line(run: subprocess.CompletedProcess[str], text: str) -> str:
    """The line of the output that holds the text; the test fails if the run succeeded or says
    nothing of the kind.
    """
    assert run.returncode != 0, run.stdout + run.stderr
    lines = [line for line in (run.stdout + run.stderr).splitlines() if text in line]
    assert lines, run.stdout + run.stderr
    return lines[0]


def test_a_mistake_in_the_configuration_stops_before_any_job(tiny: Project) -> None:
    before = (tiny.folder / PDF).read_bytes()
    tiny.change_config(
        lambda config: config["experiments"]["device"]["grid"][0].update(batch_size=0)
    )
    message = "batch_size: 0 is not allowed; use 1 or more"

    line = error_line(tiny.snakemake(PDF), message)

    assert "config/tiny.yaml" in line
    assert (tiny.folder / PDF).read_bytes() == before
    assert error_line(tiny.gpu_report("list", "--configfile", tiny.configfile), message)


@pytest.mark.slow
def test_the_pdf_of_a_search_alone_is_refused_before_anything_is_measured(
    unbuilt_tiny: Project,
) -> None:
    unbuilt_tiny.change_config(
        lambda config: config.update(
            workloads={**config["workloads"], "cnn": {"data": "synthetic"}},
            experiments={
                **config["experiments"],
                "sizes": {
                    "question": "Which batch size?",
                    "search": "batch_size",
                    "grid": [{"workload": "cnn", "size": "small", "device": "cpu"}],
                },
            },
        )
    )

    refused = unbuilt_tiny.snakemake("--dry-run", "--", "report/sizes.pdf")

    assert "build report/gpu_report.pdf" in error_line(
        refused, "experiments.sizes: it searches batch sizes"
    )
    assert unbuilt_tiny.planned("sizes")["search_batch_size"] == 1


@pytest.mark.slow
def test_a_record_of_a_newer_schema_is_refused_and_kept(tiny: Project) -> None:
    path = tiny.records()[0]
    values = {**json.loads(path.read_text("utf-8")), "schema_version": 99}
    path.write_text(json.dumps(values), "utf-8")

    line = error_line(tiny.snakemake(PDF), "schema version 99")

    assert "update gpu-report" in line
    assert json.loads(path.read_text("utf-8")) == values


@pytest.mark.slow
def test_a_full_disk_leaves_no_record(
    unbuilt_tiny: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TINY))
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "limited"]
    study = load_study(read_config(unbuilt_tiny.folder / unbuilt_tiny.configfile), devices=["cpu"])
    here = find_machine().id
    results = unbuilt_tiny.folder / "results/machines" / here
    ResolvedStudy.of(here, study).write(results)

    run = unbuilt_tiny.run(
        *limited, "gpu-report", "measure-variant", "--study", f"{results}/study.json",
        "--variant", study.variants[0].slug,
    )  # fmt: skip

    assert "free some space" in error_line(run, "gpu-report: error:")
    assert not list(results.rglob("*record.json*"))


@pytest.mark.slow
def test_without_tex_the_error_names_what_to_install(tiny: Project, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    python = shutil.which("python3")
    assert python is not None
    (study,) = tiny.folder.glob("results/machines/*/study.json")
    compile_report = ["stage", "compile-report", "--study", str(study), "--folder", "report"]

    run = tiny.run(
        "env", f"PATH={tools}", python, "-m", "gpu_report", *compile_report, "--pdf", PDF
    )

    assert "apt-get install" in error_line(run, "gpu-report: error:")
