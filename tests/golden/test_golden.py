"""What the published bundles, a synthetic study and recorded traces come to is what it was when a
person last looked
at it; `make golden` takes it over, and its diff is the review.
"""

from collections.abc import Callable
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

from tests.golden.artefacts import FOLDER, SOURCES, write
from tests.made_once import made_once

IN_EVERY_RUN = ("synthetic", "traces", "h200-140gb-x1-xeon-16c")
"""The other bundles take a quarter of a minute each and are slow."""
MOST_LINES = 40

Made = Callable[[str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The folder with what a source comes to now."""
    return lambda source: made_once(
        tmp_path_factory, f"golden_{source}", lambda folder: write(folder, SOURCES[source]())
    )


def parameters(*values: tuple[str, ...]) -> list[object]:
    """A source with what else a test takes; those that are not in every run are slow."""
    return [
        pytest.param(
            *each, id="-".join(each), marks=() if each[0] in IN_EVERY_RUN else pytest.mark.slow
        )
        for each in values
    ]


def kept(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("source", parameters(*((source,) for source in SOURCES)))
def test_no_artefact_is_new_or_gone(source: str, made: Made) -> None:
    assert kept(made(source)) == kept(FOLDER / source)


@pytest.mark.parametrize(
    ("source", "name"),
    parameters(*((source, name) for source in SOURCES for name in kept(FOLDER / source))),
)
def test_an_artefact_is_what_it_was(source: str, name: str, made: Made) -> None:
    was, now = (
        (folder / name).read_text("utf-8").splitlines(keepends=True)
        for folder in (FOLDER / source, made(source))
    )

    changed = "".join(islice(unified_diff(was, now, "was", "now", n=0), MOST_LINES))
    assert not changed, "make golden writes what it is now:\n" + changed
