"""What docs/your_model.md shows runs in an empty folder: its files, its Python and its commands,
section by section.
"""

import re
from pathlib import Path

import pytest

from tests.workflow.pages import blocks_of, commands, run, write_files

LABEL = re.compile(
    r"^(?:limit|why|next|memory|step|largest|fastest|smallest|  samples)  .*?(?=  |$)", re.MULTILINE
)
NOT_RUN = {'pip install -e ".[torch]"': "the tests run in an environment that has the package"}
BLOCKS = blocks_of("your_model.md")


@pytest.mark.slow
@pytest.mark.parametrize("section", dict.fromkeys(block.section for block in BLOCKS))
def test_what_a_section_shows_runs_in_an_empty_folder(section: str, tmp_path: Path) -> None:
    write_files(BLOCKS, tmp_path)

    printed = ""
    for block in BLOCKS:
        if block.section != section or block.file_name:
            continue
        if block.language == "text":
            # Beside other tests, a search says that their load leaves the speeds without an answer.
            unanswered = {"fastest", "smallest"} if "no answer: others used" in printed else set()
            missing = [
                label
                for label in LABEL.findall(block.text)
                if label.split()[0] not in {*printed.split(), *unanswered}
            ]
            assert missing == [], printed
            continue
        for command in commands(block, tmp_path, not_run=NOT_RUN):
            printed += run(command, tmp_path)


def test_every_block_is_a_file_or_run_or_printed() -> None:
    assert {block.language for block in BLOCKS} == {"python", "sh", "text"}
    assert [block.file_name for block in BLOCKS if block.file_name] == ["model.py", "train.py"]
    lines = [line for block in BLOCKS if block.language == "sh" for line in block.text.splitlines()]
    assert all(any(line.startswith(command) for line in lines) for command in NOT_RUN)
