"""The set-up scripts find what is there, and stop with what to type where something is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_report.writing import latex

PROJECT = Path(__file__).parents[2]
PLAIN_TOOLS = (
    "awk",
    "bash",
    "cat",
    "dirname",
    "env",
    "grep",
    "id",
    "make",
    "mktemp",
    "sed",
    "sh",
    "sort",
    "tail",
    "tr",
)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with the plain tools of any system and nothing else."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for tool in PLAIN_TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (folder / tool).symlink_to(found)
    return folder


def add_programs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n", "utf-8")
        (folder / name).chmod(0o755)


def add_program(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(0o755)
    return path


def run(*command: str, path: Path, folder: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": str(path),
        "GPU_REPORT_NO_INSTALL": "1",
        "HOME": os.environ.get("HOME", ""),
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def need(*names: str, path: Path) -> subprocess.CompletedProcess[str]:
    return run("scripts/system_packages.sh", *names, path=path)


@pytest.mark.parametrize(
    ("installed", "engine"),
    [
        (("latexmk", "pdflatex", "lualatex", "tectonic", "kpsewhich"), "latexmk with pdflatex"),
        (("latexmk", "lualatex", "kpsewhich"), "latexmk with lualatex"),
        (("pdflatex", "tectonic"), "tectonic"),
    ],
)
def test_the_first_engine_that_is_whole_is_used(
    programs: Path, installed: tuple[str, ...], engine: str
) -> None:
    add_programs(programs, *installed)

    answer = need("tex", path=programs)

    assert (answer.returncode, answer.stdout) == (0, f"TeX: {engine}\n")


def test_the_engine_and_its_packages_are_those_of_the_command_line(programs: Path) -> None:
    listed = run("scripts/system_packages.sh", "list", "tex", path=programs).stdout.split()

    assert listed == list(latex.DEBIAN_PACKAGES)


def test_missing_tex_is_found_before_anything_is_installed_or_measured(
    programs: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(PROJECT / "Makefile", project)
    shutil.copytree(PROJECT / "scripts", project / "scripts")

    answer = run("make", "report", path=programs, folder=project)

    assert answer.returncode != 0
    assert "TeX is missing" in answer.stderr
    assert sorted(path.name for path in project.iterdir()) == ["Makefile", "scripts"]


@pytest.mark.parametrize(
    ("home", "given", "expected"),
    [
        ("missing", None, "project/.venv/cache"),
        ("missing", "given", "given"),
        ("home", None, ""),
        ("home with caches", None, ""),
        (None, None, ""),
    ],
)
def test_caches_are_in_the_project_only_where_the_home_cannot_be_written(
    tmp_path: Path, home: str | None, given: str | None, expected: str
) -> None:
    project = tmp_path / "project"
    for folder in (project, tmp_path / "home", tmp_path / "home with caches/.cache"):
        folder.mkdir(parents=True)
    shutil.copy(PROJECT / "Makefile", project)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")
    }
    asked = {"HOME": home, "XDG_CACHE_HOME": given}
    environment |= {name: str(tmp_path / path) for name, path in asked.items() if path}

    answer = subprocess.run(
        ["make", "--silent", "--eval", "shown: ; @echo $$XDG_CACHE_HOME", "shown"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == (str(tmp_path / expected) if expected else "")


@pytest.mark.skipif(shutil.which("kpsewhich") is None, reason="no TeX Live on PATH")
def test_this_machines_tex_holds_every_package_the_report_loads() -> None:
    answer = need("tex", path=Path(os.environ["PATH"]))

    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_a_python_that_has_torch_keeps_it(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    path = Path(os.environ["PATH"])

    run("scripts/environment.sh", "create", sys.executable, path=path, folder=tmp_path)
    answer = run("scripts/environment.sh", "torch", path=path, folder=tmp_path)

    python = tmp_path / ".venv" / "bin" / "python"
    found = run(
        str(python),
        "-c",
        "import importlib.util; print(importlib.util.find_spec('torch').origin)",
        path=path,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert f"of {sys.executable}; none is installed" in answer.stdout
    assert Path(found.stdout.strip()) == Path(str(torch.__file__))


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({}, ""),
        (
            {"torch": "", "torchvision": "raise ImportError('no libjpeg\\nhere')"},
            "torchvision does not import: no libjpeg",
        ),
        (
            {"torch": "raise OSError('libcudart.so: not found')"},
            "torch does not import: libcudart.so: not found",
        ),
        ({"torch": "import os; os.abort()"}, "torch ends Python when it is imported"),
        (
            {"torch": "__version__ = '1.0'", "torchvision": ""},
            "torch 1.0 of {python} is older than 2.11 and stays unused",
        ),
    ],
)
def test_a_torch_that_cannot_be_used_is_named_before_the_pinned_one_is_installed(
    tmp_path: Path, modules: dict[str, str], said: str
) -> None:
    shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    shutil.copytree(PROJECT / "locks", tmp_path / "locks")
    own = tmp_path / "own"
    own.mkdir()
    for name, content in modules.items():
        (own / f"{name}.py").write_text(content, "utf-8")
    python = add_program(
        tmp_path / "python",
        f'cd {own} && exec {sys.executable} -S -c "import sys; exec(sys.stdin.read())"',
    )
    (tmp_path / ".venv/bin").mkdir(parents=True)
    add_program(tmp_path / ".venv/bin/python", "exit 0")
    (tmp_path / ".venv/made-with").write_text(f"{python}\n", "utf-8")

    answer = run("scripts/environment.sh", "torch", path=Path(os.environ["PATH"]), folder=tmp_path)

    lines = answer.stdout.splitlines()
    assert (answer.returncode, answer.stderr) == (0, "")
    assert lines[-1].startswith("environment: installing ")
    assert len(lines) == (2 if said else 1)
    assert said.format(python=python) in lines[0]
    assert not said or lines[0].endswith("; the pinned one is installed")
