"""The files around the package agree with each other: dependencies, locks, environment, versions,
doors.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from snakemake.cli import get_argument_parser

import gpu_report

PROJECT = Path(__file__).parents[2]
LOCKS = sorted((PROJECT / "locks").glob("*.lock"))
CONDA_NAMES = {
    "pytorch": "torch",
    "matplotlib-base": "matplotlib",
    "snakemake-minimal": "snakemake",
}
CONDA_ONLY = {"python", "pip", "tectonic", "cxx-compiler", "ninja"}


def read(name: str) -> str:
    return (PROJECT / name).read_text("utf-8")


def pyproject() -> dict[str, Any]:
    return tomllib.loads(read("pyproject.toml"))


def requirements(*extras: str) -> dict[str, Requirement]:
    project = pyproject()["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def pins(lock: Path) -> dict[str, set[str]]:
    """The versions of each package in a lock file; there are two where Python versions need
    different ones.
    """
    found: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)==([\w.+!-]+)", lock.read_text("utf-8"), re.MULTILINE
    ):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def test_the_conda_environment_asks_for_what_the_package_asks_for() -> None:
    rows = yaml.safe_load(read("environment.yml"))["dependencies"]
    conda = [Requirement(row) for row in rows if isinstance(row, str)]
    bounds = {
        CONDA_NAMES.get(row.name, row.name): row.specifier
        for row in conda
        if row.name not in CONDA_ONLY
    }

    wanted = requirements("report", "torch")
    wanted |= {
        name: requirement for name, requirement in requirements("dev").items() if name in bounds
    }

    assert bounds == {name: requirement.specifier for name, requirement in wanted.items()}


def test_the_conda_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = yaml.safe_load(read("recipe/recipe.yaml"))
    rows = [row for part in ("run", "run_constraints") for row in recipe["requirements"][part]]
    conda = [Requirement(row) for row in rows if not row.startswith("python >=")]
    bounds = {CONDA_NAMES.get(row.name, row.name): row.specifier for row in conda}

    wanted = {name: each.specifier for name, each in requirements("report", "torch").items()}

    tectonic = bounds.pop("tectonic")
    assert bounds == wanted
    assert f"tectonic{tectonic}" in yaml.safe_load(read("environment.yml"))["dependencies"]
    assert f">={recipe['context']['python_min']}" == pyproject()["project"]["requires-python"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_holds_hashes_and_no_addresses(lock: Path) -> None:
    text = lock.read_text("utf-8")

    blocks = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]

    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"://|--index|--extra-index|--find-links| @ ", text)


@pytest.mark.parametrize(
    ("lock", "extra"),
    [("base", "report"), ("torch", "torch"), ("dev", "dev"), ("dev", "docs")],
)
def test_a_lock_pins_every_dependency_within_its_bounds(lock: str, extra: str | None) -> None:
    pinned = pins(PROJECT / "locks" / f"{lock}.lock")
    wanted = requirements() if extra is None else requirements(extra).keys() - requirements().keys()
    all_requirements = requirements(*([extra] if extra else []))

    for name in wanted:
        versions = pinned[canonicalize_name(name)]
        assert versions
        assert all(version in all_requirements[name].specifier for version in versions), name


def test_a_package_in_two_locks_has_one_version() -> None:
    base, *others = (pins(PROJECT / "locks" / f"{name}.lock") for name in ("base", "torch", "dev"))

    for other in others:
        shared = base.keys() & other.keys()
        assert {name: other[name] for name in shared} == {name: base[name] for name in shared}


def test_the_version_is_the_same_everywhere() -> None:
    version = pyproject()["project"]["version"]
    style = read("src/gpu_report/writing/templates/gpu_report.sty")

    assert gpu_report.__version__ == version
    assert yaml.safe_load(read("CITATION.cff"))["version"] == version
    assert yaml.safe_load(read("recipe/recipe.yaml"))["context"]["version"] == version
    assert re.findall(r"\\ProvidesPackage.*\[\S+ v(\S+)", style) == [version]
    assert re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), re.MULTILINE)[0] == version


def test_the_citation_file_and_the_package_name_the_same_software() -> None:
    package, cited = pyproject()["project"], yaml.safe_load(read("CITATION.cff"))

    assert cited["title"] == f"{package['name']}: {package['description'].rstrip('.')}"
    assert cited["authors"] == package["authors"]
    assert cited["license"] == package["license"]


def test_help_names_every_target_a_person_can_ask_for() -> None:
    internal = {"$(CHECKS)", "tex", "test-system", "another-python"}
    phony = (
        set(re.findall(r"^\.PHONY: (.*)$", read("Makefile"), re.MULTILINE)[0].split()) - internal
    )

    answer = subprocess.run(
        ["make", "--no-print-directory"], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    assert set(re.findall(r"^make (\S+) ", answer.stdout, re.MULTILINE)) == phony


def test_a_commit_and_ci_run_what_a_person_runs() -> None:
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    steps = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]["check-and-test"]["steps"]
    nightly = yaml.safe_load(read(".github/workflows/nightly.yml"))["jobs"]["test-all"]["steps"]

    assert [hook["entry"] for hook in hooks] == ["make check"]
    assert ".ci/run" in [step.get("run") for step in steps]
    assert "make test-all" in [step.get("run") for step in nightly]
    assert re.findall(r"^make (\w+)", read(".ci/run"), re.MULTILINE) == ["check", "test"]


def test_every_action_is_pinned_by_a_commit_and_names_its_version() -> None:
    files = [*PROJECT.glob(".github/**/*.yml"), *PROJECT.glob("docs/*.yml")]
    used = [
        line
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if re.search(r"\buses: (?!\./)", line)
    ]

    assert len(used) >= 8
    for line in used:
        assert re.search(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("traces", "torch"),
        ("tables", "gpu_report.answers"),
        ("study", "gpu_report.records.record"),
    ],
)
def test_an_import_against_the_layers_is_found(
    tmp_path: Path, importer: str, imported: str
) -> None:
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    package = tmp_path / "gpu_report"
    for layer in ("figures", "findings", "measure", "tables", "traces", "workloads", "writing"):
        (package / layer).mkdir(parents=True)
        (package / layer / "__init__.py").touch()
    for module in ("__init__", "cli", "errors", "records", "study"):
        (package / f"{module}.py").touch()
    file = (
        package / importer / "inside.py"
        if (package / importer).is_dir()
        else package / f"{importer}.py"
    )
    file.write_text(f"import {imported}\n", "utf-8")

    answer = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "1 broken" in answer.stdout or "2 broken" in answer.stdout


def schema_keys(schema: Any) -> set[str]:
    """Every key that a study may hold, wherever it stands in the schema."""
    if isinstance(schema, list):
        return {key for part in schema for key in schema_keys(part)}
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own | {key for part in schema.values() for key in schema_keys(part)}


def test_the_configs_readme_describes_every_key() -> None:
    schema = yaml.safe_load(read("src/gpu_report/study/study.schema.yaml"))
    described = set(
        re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", read("config/README.md"))))
    )

    assert "steps_per_epoch" in schema_keys(schema)
    assert schema_keys(schema) - described == set()


def test_the_documentation_lists_the_experiments_of_the_study_with_their_questions() -> None:
    experiments = yaml.safe_load(read("config/study.yaml"))["experiments"]
    section = read("docs/study.md").partition("## The experiments")[2].partition("\n## ")[0]

    listed = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE))

    assert list(listed) == list(experiments)
    assert listed == {name: experiment["question"] for name, experiment in experiments.items()}


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/bundles.md",
        "docs/cluster.md",
        "docs/study.md",
        "config/README.md",
        "config/ci.yaml",
        "config/study.yaml",
    ],
)
def test_snakemake_reads_a_command_of_the_documents_as_it_is_meant(name: str) -> None:
    """`--configfile` takes every word that follows it, also one that was meant as the target."""
    commands = re.findall(
        r"^(?:#\s*)?(snakemake .+?)(?:\s{2,}#.*)?$|`(snakemake [^`]+)`", read(name), re.MULTILINE
    )

    for command in (in_block or in_line for in_block, in_line in commands):
        given, unknown = get_argument_parser().parse_known_args(shlex.split(command)[1:])
        assert unknown == []
        assert all(path.suffix == ".yaml" for path in given.configfile or []), command
        assert all("=" in setting for setting in given.config or []), command


def anchors(markdown: str) -> set[str]:
    """What links to its headings end with: lower-case words joined by hyphens, without
    punctuation.
    """
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "config/README.md",
    *(f"docs/{path.name}" for path in PROJECT.glob("docs/*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_within_the_project_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^):]+)\)", read(document))

    broken = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = (PROJECT / document).parent / name if name else PROJECT / document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)

    assert broken == []
