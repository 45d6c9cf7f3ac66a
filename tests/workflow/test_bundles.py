"""Results that were measured elsewhere are shown without measuring, without PyTorch, and the same
wherever built.
"""

import os
import shlex
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.made_once import made_once

from .conftest import PDF, Project, copy_of_the_project

BUNDLES_ALONE = ("--config", "machines=[published]")
POISON = """from pathlib import Path
Path(__file__).with_name("imported").write_text("")
raise ImportError("PyTorch was imported")
"""


def machine_of(project: Project) -> str:
    return project.records()[0].parents[2].name


def pack(project: Project, *options: str) -> Path:
    packed = project.gpu_report(
        "pack", "--allow-dirty", "--configfile", project.configfile, *options
    )
    assert packed.returncode == 0, packed.stdout + packed.stderr
    return project.folder / packed.stdout.partition(":")[0]


def with_bundle(folder: Path, bundle: Path) -> Project:
    """A project that measured nothing and has the bundle among its published ones."""
    project = copy_of_the_project(folder, "config/tiny.yaml")
    (folder / "results/published").mkdir(parents=True, exist_ok=True)
    for tracked in (folder / "results/published").glob("*.tar.xz"):
        tracked.unlink()
    shutil.copy2(bundle, folder / "results/published")
    return project


@pytest.fixture(scope="module")
def bundle(built_tiny: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published bundle of the built tiny study, as if of another machine than the one
    in hand.
    """

    def make(folder: Path) -> None:
        packing = built_tiny.copy_to(folder)
        own = machine_of(packing)
        for path in packing.folder.glob("results/machines/*/**/*.json"):
            path.write_text(
                path.read_text("utf-8").replace(f'"machine":"{own}"', '"machine":"abacus-8c"'),
                "utf-8",
            )
        (packing.folder / "results/machines" / own).rename(
            packing.folder / "results/machines/abacus-8c"
        )
        pack(packing, "--machine", "abacus-8c").rename(folder / "abacus-8c.tar.xz")

    return made_once(tmp_path_factory, "packed", make) / "abacus-8c.tar.xz"


class WithoutPyTorch(Project):
    """A project whose commands find a package `torch` that cannot be imported and leaves a file
    where someone tried.
    """

    @property
    def attempt(self) -> Path:
        return self.folder.parent / "poison/torch/imported"

    def environment(self) -> dict[str, str]:
        known = super().environment()
        self.attempt.parent.mkdir(parents=True, exist_ok=True)
        (self.attempt.parent / "__init__.py").write_text(POISON, "utf-8")
        return {
            **known,
            "PYTHONPATH": os.pathsep.join([str(self.attempt.parents[1]), known["PYTHONPATH"]]),
        }


@pytest.fixture(scope="module")
def shown(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The report of the bundle alone, built without PyTorch; copy it before changing anything."""

    def build(folder: Path) -> None:
        project = with_bundle(folder / "project", bundle)
        without = WithoutPyTorch(folder=project.folder, configfile=project.configfile)
        built = without.snakemake(*BUNDLES_ALONE, "--", PDF)
        assert built.returncode == 0, built.stdout + built.stderr
        assert not without.attempt.exists()

    folder = made_once(tmp_path_factory, "shown", build) / "project"
    return Project(folder=folder, configfile="config/tiny.yaml")


def test_a_bundle_alone_is_shown_without_pytorch_and_without_measuring(shown: Project) -> None:
    assert "abacus-8c" in shown.run("pdftotext", PDF, "-").stdout
    assert not (shown.folder / "results/machines").exists()


@pytest.mark.slow
def test_a_published_machine_is_beside_this_one(bundle: Path, tiny: Project) -> None:
    (tiny.folder / "results/published").mkdir(parents=True, exist_ok=True)
    shutil.copy2(bundle, tiny.folder / "results/published")

    planned = tiny.planned(PDF)
    built = tiny.snakemake(PDF)

    assert "measure_variant" not in planned
    assert built.returncode == 0, built.stdout + built.stderr
    text = tiny.run("pdftotext", PDF, "-").stdout
    assert "Abacus, 8 cores" in text
    assert machine_of(tiny) in text
    assert "abacus-8c" in (tiny.folder / "results/comparison.csv").read_text("utf-8")


@pytest.mark.slow
def test_a_damaged_bundle_fails_every_time_until_it_is_repaired(
    shown: Project, bundle: Path, tmp_path: Path
) -> None:
    project = shown.copy_to(tmp_path / "project")
    published = project.folder / "results/published" / bundle.name
    whole = published.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) * 3 // 4] ^= 1
    published.write_bytes(damaged)
    later = time.time() + 2
    os.utime(published, (later, later))

    runs = [project.snakemake(*BUNDLES_ALONE, "--", PDF) for _ in range(2)]

    assert [run.returncode for run in runs] == [1, 1]
    for run in runs:
        assert f"results/published/{bundle.name}" in run.stdout + run.stderr
        assert "fetch it again" in run.stdout + run.stderr
    published.write_bytes(whole)
    assert project.snakemake(*BUNDLES_ALONE, "--", PDF).returncode == 0
    assert project.planned(PDF, options=BUNDLES_ALONE) == {}


def rebuilding(project: Project, *options: str) -> list[str]:
    """The words of the command that the report names if it is built with these options."""
    planned = project.snakemake(
        "--dry-run", "--printshellcmds", "--forcerun", "write_sections", *options, "--", PDF
    )
    writing = next(
        shlex.split(line) for line in planned.stdout.splitlines() if "--rebuilt-by" in line
    )
    return shlex.split(writing[writing.index("--rebuilt-by") + 1])


@pytest.mark.slow
@pytest.mark.parametrize(("made", "options"), [("built_tiny", ()), ("shown", BUNDLES_ALONE)])
def test_the_command_that_a_report_names_makes_this_report_again(
    made: str, options: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    project: Project = request.getfixturevalue(made)

    again = project.run(*rebuilding(project, *options), "--dry-run")

    assert again.returncode == 0, again.stderr
    assert "Nothing to be done" in again.stderr + again.stdout
    assert "gpurepname{snakemake" in (project.folder / "report/sections/appendix.tex").read_text(
        "utf-8"
    )


@pytest.mark.slow
def test_the_command_that_a_report_names_keeps_what_a_shell_would_change(tiny: Project) -> None:
    beside = tiny.folder / "a study's.yaml"
    shutil.copy2(tiny.folder / tiny.configfile, beside)
    title = 'title="Costs $5 of `who`"'

    words = rebuilding(replace(tiny, configfile=beside.name), "--config", title)

    assert words[-4:] == ["--configfile", beside.name, "--config", title]


@pytest.mark.slow
def test_an_interrupted_study_goes_on_from_a_bundle_with_traces(tiny: Project) -> None:
    first, second = tiny.records()
    findings = f"results/machines/{machine_of(tiny)}/findings.json"
    shutil.rmtree(second.parent)
    kept = pack(tiny, "--traces").rename(tiny.folder / "kept.tar.xz")
    shutil.rmtree(tiny.folder / "results")
    shutil.rmtree(tiny.folder / ".snakemake")

    unpacked = tiny.gpu_report("unpack", str(kept))

    assert unpacked.returncode == 0, unpacked.stderr
    planned = tiny.planned(findings)
    assert planned["measure_variant"] == planned["tabulate_trace"] == 1
    assert "calibrate_machine" not in planned
    assert first.exists()
    assert not second.exists()


@pytest.mark.slow
def test_nothing_is_measured_again_after_all_was_unpacked(tiny: Project) -> None:
    findings = f"results/machines/{machine_of(tiny)}/findings.json"
    kept = pack(tiny, "--traces").rename(tiny.folder / "kept.tar.xz")
    shutil.rmtree(tiny.folder / "results")
    shutil.rmtree(tiny.folder / ".snakemake")

    tiny.gpu_report("unpack", str(kept))

    assert not {"measure_variant", "calibrate_machine", "tabulate_trace"} & {
        *tiny.planned(findings)
    }
