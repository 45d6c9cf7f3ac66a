"""The blocks of code that a page of docs/ shows: files, commands, Python, and what these print."""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"^##+ (?P<section>.+?)$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
FILE_NAME = re.compile(r"# (\w+\.py)\n")


@dataclass(frozen=True, kw_only=True)
class Block:
    """`file_name` is the file that the first line names; empty for what is run as it is."""

    section: str
    language: str
    text: str

    @property
    def file_name(self) -> str:
        named = FILE_NAME.match(self.text)
        return named[1] if named else ""


def blocks_of(page: str) -> list[Block]:
    found, section = [], ""
    for match in BLOCK.finditer((DOCS / page).read_text("utf-8")):
        if match["section"]:
            section = match["section"]
        else:
            found.append(Block(section=section, language=match["language"], text=match["text"]))
    return found


def write_files(blocks: Sequence[Block], folder: Path) -> None:
    for block in blocks:
        if block.file_name:
            (folder / block.file_name).write_text(block.text, "utf-8")


def commands(block: Block, folder: Path, *, not_run: Collection[str] = ()) -> list[list[str]]:
    if block.language == "python":
        script = folder / "example.py"
        script.write_text(block.text, "utf-8")
        return [[sys.executable, script.name]]
    lines = [
        line for line in block.text.splitlines() if line.partition("  #")[0].rstrip() not in not_run
    ]
    return [["bash", "-c", line] for line in lines]


def run(command: Sequence[str], folder: Path, *, statuses: Collection[int] = (0,)) -> str:
    """What it printed, on both streams."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    answer = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode in statuses, f"{command[-1]}\n{answer.stdout}{answer.stderr}"
    assert "Traceback" not in answer.stderr
    return answer.stdout + answer.stderr
