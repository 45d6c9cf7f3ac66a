"""The package as it is installed, where nothing of this checkout is: what it needs and brings."""

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.made_once import made_once

PROJECT = Path(__file__).parents[2]
TRACE = str(PROJECT / "tests/data/traces/unet_cuda.pt.trace.json.gz")
BUNDLE = str(PROJECT / "results/published/h200-140gb-x1-xeon-16c.tar.xz")
CARD = """
import sys
from torch import nn, ones, zeros
from gpu_report import profile

batch = ones(16, 8), zeros(16, 4)
found = profile(nn.Linear(8, 4), batch, loss=nn.functional.mse_loss, seconds=0.2)
found.to_html("found.html")
print(found)
assert not {"matplotlib", "pandas", "snakemake"} & {*sys.modules}
"""
STUDY = """
name: installed
title: A study from an installed package
devices: [cpu]
seed: 0
machines: [here]
protocol: {repetitions: 3, profile_steps: 1, timed_epochs: 1, timed_seconds: 0}
workloads:
  cnn: {train_samples: 64, test_samples: 16}
experiments:
  batch_size:
    question: Which batch size trains fastest?
    axis: batch_size
    baseline: 8
    grid:
      - {workload: cnn, size: small, device: cpu, batch_size: [8, 16], epochs: 2}
"""


def build(kind: str, folder: Path, *, of: Path = PROJECT) -> None:
    """Make the wheel or the source distribution of a checkout."""
    code = f"from hatchling.build import build_{kind} as build; build({str(folder)!r})"
    subprocess.check_call([sys.executable, "-c", code], cwd=of)


def packages(installed: Path, *wanted: str) -> set[str]:
    """What these requirements ask for, with what that asks for in turn, and ours where it is
    installed.
    """
    (ours,) = (Distribution.at(each) for each in installed.glob("gpu_report-*.dist-info"))
    waiting, seen = [Requirement(each) for each in wanted], set[tuple[str, str]]()
    while waiting:
        each = waiting.pop()
        found = ours if each.name == "gpu-report" else distribution(each.name)
        for extra in {"", *each.extras} - {known for name, known in seen if name == each.name}:
            seen.add((each.name, extra))
            further = map(Requirement, found.requires or [])
            waiting += [
                one for one in further if not one.marker or one.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in seen} - {"gpu-report"}


def environment(folder: Path, wheel: Path, *wanted: str) -> None:
    """An environment with the wheel, beside packages that are links to those of this one."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in packages(site, *wanted):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or [] if file.parts[0] != ".."}:
            if not (site / top).exists():
                (site / top).symlink_to(str(found.locate_file(top)))
    for program, module in (("gpu-report", "gpu_report"), ("snakemake", "snakemake")):
        script = folder / "bin" / program
        script.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m {module} "$@"\n', "utf-8")
        script.chmod(0o755)
    for path in site.rglob("gpu_report/**/*"):
        path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made_once(tmp_path_factory, "wheel", lambda folder: build("wheel", folder))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def without_extras(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(
        tmp_path_factory,
        "without_extras",
        lambda folder: environment(folder, wheel, "gpu-report", "torch"),
    )


def run(environment: Path, *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Without anything of the caller's, and without a home."""
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": f"{environment / 'bin'}:{os.defpath}", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("status", "command"),
    [
        (0, ["python", "-c", CARD]),
        (0, ["gpu-report", "profile", "cnn", "--size=small", "--batch-size=16", "--seconds=0.2"]),
        (0, ["gpu-report", "trace", TRACE, "--html", "trace.html"]),
        (2, ["gpu-report", "compare", BUNDLE, BUNDLE]),  # of one bundle: no verdict
        (0, ["gpu-report", "watch", "python", "-c", "print('trained')"]),
    ],
    ids=["card", "profile", "trace", "compare", "watch"],
)
def test_a_profile_a_trace_and_a_comparison_need_no_extra(
    status: int, command: list[str], without_extras: Path, tmp_path: Path
) -> None:
    ended = run(without_extras, *command, folder=tmp_path)

    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "leak" not in ended.stderr  # what extensions print whose objects are left at the end


def test_a_call_that_lacks_an_extra_says_which_line_installs_it(
    without_extras: Path, tmp_path: Path
) -> None:
    code = f"import gpu_report; gpu_report.trace({TRACE!r}).tables"
    in_python = run(without_extras, "python", "-c", code, folder=tmp_path)
    (tmp_path / "numbers.csv").touch()
    ended = run(without_extras, "gpu-report", "numbers", "--folder", ".", folder=tmp_path)

    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "gpu-report: error: pandas is not installed; install it with: "
        'pip install "gpu-report[report]"'
    ]
    assert 'pip install "gpu-report[report]"' in in_python.stderr.splitlines()[-1]


def test_an_installed_package_measures_a_study_of_its_own(wheel: Path, tmp_path: Path) -> None:
    environment(tmp_path / "env", wheel, "gpu-report[report]", "torch")
    made = run(tmp_path / "env", "gpu-report", "new-study", "mine", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "mine/config/study.yaml").write_text(STUDY, "utf-8")

    ended = run(
        tmp_path / "env",
        *("snakemake", "--cores", "2", "report/gpu_report.html"),
        folder=tmp_path / "mine",
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "cnn" in (tmp_path / "mine/report/gpu_report.html").read_text("utf-8")


def test_a_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    build("sdist", tmp_path)
    subprocess.check_call(["tar", "xf", next(tmp_path.glob("*.tar.gz")), "-C", tmp_path])
    (unpacked,) = (each for each in tmp_path.iterdir() if each.is_dir())
    build("wheel", tmp_path, of=unpacked)

    wheels = [wheel, *tmp_path.glob("*.whl")]
    contents = [zipfile.ZipFile(each).namelist() for each in wheels]
    assert sorted(contents[0]) == sorted(contents[1])
    assert "gpu_report/workflow/skeleton/config/study.yaml" in contents[0]
