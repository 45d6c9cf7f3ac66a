"""What docs/your_model.md shows runs in an empty folder: its files, its Python and its commands, section by section."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).parents[2] / "docs/your_model.md"
BLOCK = re.compile(r"^## (?P<section>.+?)$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE_NAME = re.compile(r"# (\w+\.py)\n")
LABEL = re.compile(r"^(?:limit|why|next|memory|step|largest|fastest|smallest|  samples)  .*?(?=  |$)", re.MULTILINE)
NOT_RUN = {'pip install -e ".[torch]"': "the tests run in an environment that has the package"}


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


def blocks() -> list[Block]:
    found, section = [], ""
    for match in BLOCK.finditer(DOCUMENT.read_text("utf-8")):
        if match["section"]:
            section = match["section"]
        else:
            found.append(Block(section=section, language=match["language"], text=match["text"]))
    return found


BLOCKS = blocks()


def commands(block: Block, folder: Path) -> list[list[str]]:
    if block.language == "python":
        script = folder / "example.py"
        script.write_text(block.text, "utf-8")
        return [[sys.executable, script.name]]
    lines = [line for line in block.text.splitlines() if line.partition("  #")[0].rstrip() not in NOT_RUN]
    return [["bash", "-c", line] for line in lines]


@pytest.mark.parametrize("section", dict.fromkeys(block.section for block in BLOCKS))
def test_what_a_section_shows_runs_in_an_empty_folder(section: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for block in BLOCKS:
        if block.file_name:
            (tmp_path / block.file_name).write_text(block.text, "utf-8")

    printed = ""
    for block in BLOCKS:
        if block.section != section or block.file_name:
            continue
        if block.language == "text":
            missing = [label for label in LABEL.findall(block.text) if label.split()[0] not in printed.split()]
            assert missing == [], printed
            continue
        for command in commands(block, tmp_path):
            answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            printed += answer.stdout + answer.stderr
            assert answer.returncode == 0, f"{command[-1]}\n{answer.stdout}{answer.stderr}"
            assert "Traceback" not in answer.stderr


def test_every_block_is_a_file_or_run_or_printed() -> None:
    assert {block.language for block in BLOCKS} == {"python", "sh", "text"}
    assert [block.file_name for block in BLOCKS if block.file_name] == ["model.py", "train.py"]
    lines = [line for block in BLOCKS if block.language == "sh" for line in block.text.splitlines()]
    assert all(any(line.startswith(command) for line in lines) for command in NOT_RUN)
