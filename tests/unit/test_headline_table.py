"""The README's table of numbers says what the published bundle holds, and says so where it
cannot.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.study.config import read_config
from gpu_report.study.study import load_study
from scripts.headline_table import (
    BEGIN,
    BEST,
    BUNDLE,
    END,
    FRONTIER,
    GROUPS,
    Published,
    ReadmeError,
    headline,
    main,
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


def test_what_stood_between_the_markers_is_replaced_and_the_rest_kept() -> None:
    text = f"above\n{BEGIN}\nold\n{END}\nbelow\n"

    once = with_headline(text, "new")

    assert once == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"
    assert with_headline(once, "new") == once


@pytest.mark.parametrize(
    "text", ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"]
)
def test_a_readme_without_its_two_markers_is_refused(text: str) -> None:
    with pytest.raises(ReadmeError, match=r"once each; add them"):
        with_headline(text, "new")


def test_the_best_step_is_the_fastest_of_the_ladder_in_the_same_precision(
    published: Published,
) -> None:
    for group in GROUPS:
        best, plain = (
            published.best(group.plain).as_variant(),
            published.record(group.plain).as_variant(),
        )

        assert best != plain
        assert (best.workload, best.precision, best.batch_size) == (
            plain.workload,
            plain.precision,
            plain.batch_size,
        )


def test_the_table_asks_for_variants_of_todays_study() -> None:
    study = load_study(read_config(PROJECT / "config/study.yaml"), devices=["cpu", "cuda"])
    asked = {
        FRONTIER,
        *(slug for group in GROUPS for slug in (*group.variants, group.plain) if slug != BEST),
    }

    assert asked <= {variant.slug for variant in study.variants}


def test_a_projected_time_says_so_and_has_no_quality_beside_it(published: Published) -> None:
    rows = [line for line in headline(published).splitlines() if line.startswith("| ")]

    projected = [row for row in rows if "projected from epochs of" in row]

    assert len(projected) == len(GROUPS)
    assert all("CPU" in row and row.endswith("| – |") for row in projected)


def test_a_bundle_that_lacks_a_variant_of_the_table_is_refused(published: Published) -> None:
    records = {
        slug: record for slug, record in published.records.items() if slug != GROUPS[0].variants[0]
    }

    with pytest.raises(
        ReadmeError, match=rf"has no measured {GROUPS[0].variants[0]}; publish one that has"
    ):
        headline(replace(published, records=records))


def test_the_command_names_the_problem_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    status = main([])

    assert status == 2
    assert capsys.readouterr().err.startswith(f"headline_table: error: cannot read bundle {BUNDLE}")
