"""The private interfaces of other packages that the source uses are those that CONTRIBUTING.md
lists, and the installed versions have them.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal

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
Whose = Literal["ours", "theirs", "of self", "of an object"]
PRIVATE = re.compile(r"_[a-zA-Z]\w*")


def private_parts(dotted: str) -> list[str]:
    return [part for part in dotted.split(".") if PRIVATE.fullmatch(part)]


def names_in(tree: ast.AST) -> Iterator[tuple[str, Whose]]:
    """Every dotted name, and what the syntax says about where it is defined."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=context):
                yield name, "ours" if isinstance(context, ast.Store) else "of self"
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                yield name, "theirs"
            case ast.Attribute(attr=name):
                yield name, "of an object"
            case ast.ImportFrom(module=str(module), names=names):
                if not module.startswith("gpu_report"):
                    yield from ((f"{module}.{each.name}", "theirs") for each in names)
            case ast.Import(names=names):
                yield from ((each.name, "theirs") for each in names)
            case ast.Name(id=name, ctx=ast.Store()):
                yield name, "ours"
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name, "ours"
            case ast.Constant(value=str(text)) if text.startswith("torch."):
                yield text, "theirs"
            case (
                ast.Call(
                    func=ast.Name(id="getattr" | "hasattr"),
                    args=[_, ast.Constant(value=str(text)), *_],
                )
                | ast.Compare(left=ast.Constant(value=str(text)))
            ):
                yield text, "of an object"


def private_names_used(sources: Iterable[str]) -> set[str]:
    """The private names in use that are not ours: an attribute of `self` is ours if any of these
    modules defines the name, that of another object if the module does that uses it.
    """
    modules = [
        [
            (part, whose)
            for name, whose in names_in(ast.parse(source))
            for part in private_parts(name)
        ]
        for source in sources
    ]
    anywhere = {part for module in modules for part, whose in module if whose == "ours"}
    used = set()
    for module in modules:
        here = {part for part, whose in module if whose == "ours"}
        ours = {"ours": here, "of an object": here, "of self": anywhere, "theirs": set[str]()}
        used |= {part for part, whose in module if part not in ours[whose]}
    return used


def test_the_private_interfaces_in_use_are_those_that_are_listed() -> None:
    used = private_names_used(file.read_text("utf-8") for file in SOURCES)
    listed = {name: private_parts(name) for name in LISTED if name not in OF_SNAKEMAKE}

    assert used - PUBLIC - NOT_TO_BE_FOUND - set().union(*listed.values()) == set()
    assert [name for name, parts in listed.items() if parts[-1] not in used] == []


@pytest.mark.parametrize(
    ("use", "used"),
    [
        ("import torch; torch._mean(x)", {"_mean"}),
        ("import torch; torch._mean = None", {"_mean"}),
        ("from torch import _mean", {"_mean"}),
        ("from torch import _mean\nclass Own:\n    def f(self): self._mean = 0", {"_mean"}),
        ("class Child(Parent):\n    def mean(self): return super()._mean()", {"_mean"}),
        ("class Child(Parent):\n    def mean(self): return self._mean()", set()),
        ("from gpu_report.own import _mean", set()),
    ],
)
def test_a_private_name_that_another_module_defines_is_in_use_unless_it_is_of_that_module(
    use: str, used: set[str]
) -> None:
    assert private_names_used(["class Parent:\n    def _mean(self): ...", use]) == used


def asked_of_snakemake(text: str) -> set[str]:
    """What a file of the workflow asks of `workflow` and of a `rule`, also of each in a loop."""
    of_rule = {"rule", *re.findall(r"\bfor (\w+) in workflow\.rules\b", text)}
    return {
        f"{'rule' if name in of_rule else name}{attributes}".removesuffix(".update")
        for name, attributes in re.findall(r"\b(\w+)((?:\.[a-z]\w*)+)", text)
        if name in {"workflow", *of_rule}
    }


def test_what_the_workflow_asks_of_snakemake_is_what_is_listed() -> None:
    used = set().union(*(asked_of_snakemake(file.read_text("utf-8")) for file in WORKFLOW))

    assert used == set(OF_SNAKEMAKE)


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
