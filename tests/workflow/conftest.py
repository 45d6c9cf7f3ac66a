"""A copy of the project in a folder of its own, and the study in it run through the command that a
user types.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.made_once import made_once

PROJECT = Path(__file__).parents[2]
TINY = Path(__file__).parent / "tiny"
PDF = "report/gpu_report.pdf"
PAGE = "report/gpu_report.html"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A copy of the project; `configfile` is relative to it."""

    folder: Path
    configfile: str

    def environment(self) -> dict[str, str]:
        binaries = Path(sys.executable).parent
        return {
            **os.environ,
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(TINY)]),
        }

    def command(self, *targets: str) -> list[str]:
        """Options may stand before the targets, with `--` between them."""
        separator = [] if "--" in targets else ["--"]
        return ["snakemake", "--cores", "4", "--configfile", self.configfile, *separator, *targets]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def snakemake(self, *targets: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.command(*targets))

    def gpu_report(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("gpu-report", *arguments)

    def planned(self, *targets: str, options: tuple[str, ...] = ()) -> dict[str, int]:
        """How many jobs of each rule Snakemake would run now."""
        answer = self.run(
            *self.command("--dry-run", "--quiet", "rules", "host", *options, "--", *targets)
        )
        assert answer.returncode == 0, answer.stderr
        lines = [line.split() for line in (answer.stdout + answer.stderr).splitlines()]
        return {
            words[0]: int(words[1])
            for words in lines
            if len(words) == 2 and words[1].isdigit() and words[0] != "total"
        }

    def change_config(self, change: Callable[[dict[str, Any]], object]) -> None:
        path = self.folder / self.configfile
        config = yaml.safe_load(path.read_text("utf-8"))
        change(config)
        path.write_text(yaml.safe_dump(config), "utf-8")

    def records(self) -> list[Path]:
        return sorted(self.folder.glob("results/machines/*/runs/*/record.json"))

    def copy_to(self, folder: Path) -> "Project":
        shutil.copytree(self.folder, folder)
        return Project(folder=folder, configfile=self.configfile)


def copy_of_the_project(folder: Path, configfile: str) -> Project:
    """The files that git tracks or would track, with their times, and the tiny study's
    configuration.

    What Python compiled goes along: its times fit, and compiling it costs each copy's first command
    a second.
    """
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
    )
    compiled = [str(path.relative_to(PROJECT)) for path in PROJECT.glob("src/**/__pycache__/*.pyc")]
    for name in filter(None, [*listing.stdout.decode().split("\0"), *compiled]):
        if (PROJECT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name, follow_symlinks=False)
    shutil.copy2(TINY / "tiny.yaml", folder / "config/tiny.yaml")
    return Project(folder=folder, configfile=configfile)


@pytest.fixture(scope="session")
def built_tiny(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny study, built up to the PDF and the page; copy it before running or changing
    anything.
    """

    def build(folder: Path) -> None:
        built = copy_of_the_project(folder, "config/tiny.yaml").snakemake(PDF, PAGE)
        assert built.returncode == 0, built.stdout + built.stderr

    return Project(
        folder=made_once(tmp_path_factory, "built_tiny", build), configfile="config/tiny.yaml"
    )


@pytest.fixture
def tiny(built_tiny: Project, tmp_path: Path) -> Project:
    """A copy of the built tiny study that a test may change."""
    return built_tiny.copy_to(tmp_path / "project")


@pytest.fixture
def unbuilt_tiny(tmp_path: Path) -> Project:
    """The tiny study before anything is measured."""
    return copy_of_the_project(tmp_path / "project", "config/tiny.yaml")
