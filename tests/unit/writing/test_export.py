"""What is exported is all that the sections lead to, and the same files give the same archive."""

import io
import tarfile
from pathlib import Path

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.export import as_flat_archive, exported_files

SECTIONS = "\\gpurepsections{%\n  summary,%\n  device%\n}\n"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A built report of two sections, one float and one figure, and a section that an older study
    left.
    """
    texts = {
        "gpu_report.pdf": "",
        "gpu_report.sty": "",
        "references.bib": "",
        "build/gpu_report.bbl": "the references",
        "gpu_analysis_sections.tex": SECTIONS,
        "numbers.tex": "",
        "numbers.csv": "",
        "sections/summary.tex": "Nothing.",
        "sections/device.tex": r"\gpurepfloat{fig/xeon-2c/device}",
        "sections/old.tex": r"\gpureppicture{xeon-2c/old}",
        "floats/fig/xeon-2c/device.tex": r"\gpureppicture[Bars, one {longer} than the "
        r"other]{xeon-2c/device}",
        "figures/xeon-2c/device.pdf": "a picture",
        "figures/xeon-2c/old.pdf": "an old picture",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]


def test_what_the_sections_lead_to_is_exported_and_nothing_else(report: Path) -> None:
    files = exported_files(report, figure_format="pdf")

    assert list(files) == [
        "figures/xeon-2c/device.pdf",
        "floats/fig/xeon-2c/device.tex",
        "gpu_analysis_sections.tex",
        "gpu_report.sty",
        "numbers.csv",
        "numbers.tex",
        "references.bib",
        "sections/device.tex",
        "sections/summary.tex",
        "main.bbl",
    ]
    assert files["main.bbl"] == b"the references"
    assert files["figures/xeon-2c/device.pdf"] == b"a picture"


def test_a_figure_in_pgf_brings_the_pictures_it_is_made_of(report: Path) -> None:
    for name in ("device.pgf", "device-img0.png", "device-img1.png"):
        (report / "figures" / "xeon-2c" / name).write_bytes(b"")

    files = exported_files(report, figure_format="pgf")

    assert [Path(path).name for path in files if path.startswith("figures/")] == [
        "device-img0.png", "device-img1.png", "device.pgf",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("removed", "figure_format", "said"),
    [
        ("gpu_report.pdf", "pdf", "make it with: make report"),
        ("sections/device.tex", "pdf", "sections/device.tex, which is not in .*run: make report"),
        ("figures/xeon-2c/device.pdf", "pdf", r"figures/xeon-2c/device\.pdf, which is not in"),
        ("", "pgf", r"no figure in .* is drawn as PGF; .*snakemake --cores 4 figures_in_pgf"),
    ],
)
def test_a_file_that_is_not_there_is_named_with_what_makes_it(
    report: Path, removed: str, figure_format: str, said: str
) -> None:
    if removed:
        (report / removed).unlink()

    with pytest.raises(ReportError, match=said):
        exported_files(report, figure_format=figure_format)


def test_sections_of_an_older_version_are_refused(report: Path) -> None:
    (report / "gpu_analysis_sections.tex").write_text(r"\input{sections/device}", encoding="utf-8")

    with pytest.raises(ReportError, match="older gpu-report"):
        exported_files(report, figure_format="pdf")


def test_an_archive_has_all_files_in_one_folder_and_its_document_on_top(report: Path) -> None:
    files = exported_files(report, figure_format="pdf")

    archive = as_flat_archive(files, figure_format="pdf")
    found = members(archive)

    assert archive == as_flat_archive(dict(files), figure_format="pdf")
    assert next(iter(found)) == "main.tex"
    assert not any("/" in name for name in found)
    assert found["figures--xeon-2c--device.pdf"] == b"a picture"
    assert b"\\usepackage[flat]{gpu_report}" in found["main.tex"]


def test_two_files_that_would_get_the_same_name_are_refused() -> None:
    with pytest.raises(ReportError, match=r"a/b--c\.pdf would be called a--b--c\.pdf"):
        as_flat_archive({"a--b/c.pdf": b"", "a/b--c.pdf": b""}, figure_format="pdf")
