"""The README's table of numbers says what the published bundle holds, and says so where it
cannot.
"""

from pathlib import Path

import pytest

from gpu_report.study.config import read_config
from gpu_report.study.study import load_study
from scripts.headline_table import (
    BEST,
    BUNDLE,
    FRONTIER,
    GROUPS,
    Published,
    headline,
    read_published,
    with_headline,
)

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def published() -> Published:
    return read_published(PROJECT / BUNDLE)


def test_the_readme_says_what_the_published_bundle_holds(published: Published) -> None:
    readme = (PROJECT / "README.md").read_text("utf-8")

    assert with_headline(readme, headline(published)) == readme  # make readme writes it anew


def test_the_table_asks_for_variants_of_the_published_study() -> None:
    study = load_study(
        read_config(PROJECT / "results/published/study.yaml"), devices=["cpu", "cuda"]
    )
    asked = {
        FRONTIER,
        *(slug for group in GROUPS for slug in (*group.variants, group.plain) if slug != BEST),
    }

    assert asked <= {variant.slug for variant in study.variants}
