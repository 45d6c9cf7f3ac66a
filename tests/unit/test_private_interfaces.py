"""The private interfaces of other packages that the source uses are those that CONTRIBUTING.md
lists, and the installed versions have them.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

PROJECT = Path(__file__).parents[2]
SOURCES = sorted((PROJECT / "src").rglob("*.py"))
WORKFLOW = [PROJECT / "Snakefile", *(PROJECT / "src").rglob("*.smk")]
_SECTION = (PROJECT / "CONTRIBUTING.md").read_text("utf-8").partition("## Private interfaces")[2]
LISTED = [
    name
    for cell in re.findall(r"^\| (`.+?) \|", _SECTION.partition("\n## ")[0], re.MULTILINE)
    for name in re.findall(r"`([^`]+)`", cell)
]
OF_SNAKEMAKE = [name for name in LISTED if name.startswith(("workflow.", "rule."))]
PUBLIC = {"_asdict", "_exit", "_fields", "_replace"}  # documented, for all their underscore
NOT_TO_BE_FOUND = {"_inheriting"}  # multiprocessing sets it while a process imports the script
PRIVATE = re.compile(r"_[a-zA-Z]\w*")


def private_parts(dotted: str) -> set[str]:
    return {part for part in dotted.split(".") if PRIVATE.fullmatch(part)}


def names_in(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every dotted name, and whether it is defined here."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=context):
                yield name, isinstance(context, ast.Store)
            case ast.ImportFrom(module=str(module), names=names):
                if not module.startswith("gpu_report"):
                    yield from ((f"{module}.{each.name}", False) for each in names)
            case ast.Import(names=names):
                yield from ((each.name, False) for each in names)
            case ast.Name(id=name, ctx=ast.Store()):
                yield name, True
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name, True
            case ast.Constant(value=str(text)) if text.startswith("torch."):
                yield text, False
            case (
                ast.Call(
                    func=ast.Name(id="getattr" | "hasattr"),
                    args=[_, ast.Constant(value=str(text)), *_],
                )
                | ast.Compare(left=ast.Constant(value=str(text)))
            ):
                yield text, False


def test_the_private_interfaces_in_use_are_those_that_are_listed() -> None:
    names = [name for file in SOURCES for name in names_in(ast.parse(file.read_text("utf-8")))]
    ours = {part for name, is_defined in names if is_defined for part in private_parts(name)}
    used = {part for name, _ in names for part in private_parts(name)} - ours
    listed = {name: private_parts(name) for name in LISTED if name not in OF_SNAKEMAKE}

    assert used - PUBLIC - NOT_TO_BE_FOUND - set().union(*listed.values()) == set()
    assert [name for name, parts in listed.items() if not parts & used] == []


def test_what_the_workflow_asks_of_snakemake_is_listed() -> None:
    text = "\n".join(file.read_text("utf-8") for file in WORKFLOW)
    used = set(re.findall(r"\b(?:workflow|rule)(?:\.[a-z]\w*)+", text))

    listed = set(OF_SNAKEMAKE)
    assert used - listed - {f"{name}.update" for name in listed} == set()
    assert all(name.rpartition(".")[2] in text for name in listed)


@pytest.mark.parametrize("name", [name for name in LISTED if name not in OF_SNAKEMAKE])
def test_the_installed_packages_have_a_listed_interface(name: str) -> None:
    resolve_name(name)


def test_the_installed_snakemake_has_the_listed_interfaces(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "rule:\n    output: 'made'\n    shell: 'touch {output}'\n"
        "onstart:\n    rule = next(iter(workflow.rules))\n"
        + "".join(f"    {name}\n" for name in OF_SNAKEMAKE),
        "utf-8",
    )

    answer = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
