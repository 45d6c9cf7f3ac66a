"""Whether src is within its budget: statements of Python against the number in pyproject.toml.

Statements are nodes of the syntax tree, so that the width of a line, comments and blank lines cost
nothing.
"""

import ast
import tomllib
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1]


def count_statements(folder: Path) -> int:
    """How many statements the Python files in this folder have."""
    trees = (ast.parse(file.read_bytes()) for file in folder.rglob("*.py"))
    return sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree))


def main() -> None:
    """Print both numbers; the exit status is 1 if src is larger than its budget."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    budget = settings["tool"]["gpu-report"]["statements"]
    found = count_statements(PROJECT / "src")
    print(f"src has {found:,} statements of {budget:,}")
    if found > budget:
        raise SystemExit(
            "remove code, or say in the commit why tool.gpu-report.statements in pyproject.toml "
            "grows"
        )


if __name__ == "__main__":
    main()
