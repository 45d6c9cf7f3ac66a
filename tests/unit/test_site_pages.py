"""The documentation site has every key, column and function of the code, and is not built with a
page or link that leads nowhere.
"""

from pathlib import Path

import pytest
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

import gpu_report
from gpu_report.commands.traces import every_table
from scripts.site_pages import (
    commands_page,
    keys_page,
    python_page,
    readme_section,
    tables_page,
    with_links,
)
from tests.unit.test_project_files import PROJECT, read, schema_keys


@pytest.mark.parametrize(
    ("link", "source", "page", "expected"),
    [
        (
            "../config/README.md#optimizations",
            "docs/study.md",
            "study.md",
            "configuration.md#optimizations",
        ),
        ("../docs/study.md#commands", "config/README.md", "configuration.md", "study.md#commands"),
        ("docs/guard.yml", "README.md", "index.md", "guard.yml"),
        ("../notebooks/unet.py", "docs/study.md", "study.md", "notebooks/unet.py"),
        ("../study.md", "docs/reference/keys.md", "reference/keys.md", "../study.md"),
        ("#optimizations", "config/README.md", "configuration.md", "#optimizations"),
        ("https://pytorch.org/docs", "README.md", "index.md", "https://pytorch.org/docs"),
    ],
)
def test_a_link_in_the_repository_becomes_one_in_the_site(
    link: str, source: str, page: str, expected: str
) -> None:
    assert with_links(f"[a]({link})", source=source, page=page) == f"[a]({expected})"


def test_a_section_of_the_readme_ends_where_the_next_begins() -> None:
    section = readme_section("What one H200 gives")

    assert section.startswith("## What one H200 gives\n")
    assert section.count("\n## ") == 0
    assert "U-Net 128px" in section


def test_the_reference_has_every_key_of_a_study() -> None:
    schema = yaml.safe_load(read("src/gpu_report/study/study.schema.yaml"))
    built_in = set(schema["properties"]["workloads"]["properties"])

    page = keys_page()

    assert [key for key in schema_keys(schema) - built_in if f"| `{key}`" not in page] == []
    assert all(f"workloads.{name}`" in page for name in built_in)
    assert "| `repetitions` (required) | a whole number, at least 3, at most 100 |" in page


def test_the_reference_has_every_column_of_every_table() -> None:
    sections = dict(part.split("\n", 1) for part in tables_page().split("\n## ")[1:])

    assert {name: text.count("\n| `") for name, text in sections.items()} == {
        name: len(table.columns) for name, table in every_table().items()
    }


def test_the_reference_has_everything_that_is_called_from_python() -> None:
    page = python_page().split()

    assert {f"gpu_report.{name}" for name in gpu_report._MODULES} <= set(page)


def test_the_reference_has_the_help_of_what_a_person_types_and_not_of_the_workflow() -> None:
    page = commands_page()

    assert "usage: gpu-report profile" in page
    assert "gpu-report stage" not in page


def build_site(folder: Path, *, nav: list[str], index: str) -> None:
    """Two pages with the project's settings, without what takes long."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Start\n\n{index}\n", "utf-8")
    (docs / "other.md").write_text("# Other\n", "utf-8")
    build(
        load_config(
            str(PROJECT / "mkdocs.yml"),
            docs_dir=str(docs),
            site_dir=str(folder / "site"),
            nav=nav,
            hooks=[],
            plugins=[],
            extra_css=[],
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("nav", "index"),
    [
        (["index.md", "other.md", "missing.md"], ""),
        (["index.md"], ""),
        (["index.md", "other.md"], "[no page](missing.md)"),
        (["index.md", "other.md"], "[no heading](other.md#missing)"),
    ],
    ids=["page missing", "page in no list", "link to no page", "link to no heading"],
)
def test_a_site_with_a_loose_end_is_not_built(tmp_path: Path, nav: list[str], index: str) -> None:
    with pytest.raises(Abort, match="1 warning"):
        build_site(tmp_path, nav=nav, index=index)


def test_a_site_without_a_loose_end_is_built(tmp_path: Path) -> None:
    build_site(tmp_path, nav=["index.md", "other.md"], index="[fine](other.md#other)")

    assert 'href="other.html#other"' in (tmp_path / "site/index.html").read_text("utf-8")
