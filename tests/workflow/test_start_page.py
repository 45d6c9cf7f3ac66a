"""What the first page of the documentation site shows runs in an empty folder."""

from pathlib import Path

import pytest

from tests.workflow.pages import blocks_of, commands, run


@pytest.mark.slow
def test_the_first_command_of_the_site_prints_a_card(tmp_path: Path) -> None:
    (block,) = blocks_of("index.md")
    install, *commands_to_run = commands(block, tmp_path)

    printed = [run(command, tmp_path) for command in commands_to_run]

    assert install[-1].startswith("pip install -e")
    assert [text.split()[0] for text in printed] == ["limit"]
    assert list(tmp_path.iterdir()) == []
