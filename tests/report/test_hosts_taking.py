"""Every way to take the sections: from any folder, one float, two reports, packages in any order,
every switch.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.report.hosts import build, need
from tests.report.synthetic import render_devices, results_on, write_report

pytestmark = pytest.mark.slow
FEW = "sections={summary,batch_size}"
PACKAGE = rf"\usepackage[{FEW}]{{measured/gpu_report}}"
ALL = r"\input{measured/gpu_analysis_sections}"
TABLE, FIGURE = "tab/xeon-2c/batch_size", "fig/xeon-2c/device_speedup"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for documents, with a report of two devices inside it, and one of a CPU."""
    parent = tmp_path_factory.mktemp("taking")
    write_report(parent / "measured", render_devices("cpu", "cuda"), [results_on("cpu", "cuda")])
    write_report(parent / "deep er" / "b_2", render_devices("cpu"), [results_on("cpu")])
    return parent


def article(*body: str, preamble: str = PACKAGE, document_class: str = "{article}") -> str:
    return "\n".join(
        [
            rf"\documentclass{document_class}",
            preamble,
            r"\begin{document}",
            *body,
            r"\end{document}",
        ]
    )


@pytest.mark.parametrize(
    ("name", "taking"),
    [
        ("input", ALL),
        ("import", r"\import{measured/}{gpu_analysis_sections}"),
        ("subimport", r"\subimport{measured/}{gpu_analysis_sections}"),
        ("include", r"\include{measured/gpu_analysis_sections}"),
        ("one", r"\input{measured/sections/batch_size}"),
        ("one-imported", r"\import{measured/sections/}{batch_size}"),
    ],
)
def test_sections_are_taken_from_another_folder_in_every_way(
    folder: Path, name: str, taking: str
) -> None:
    need("pdflatex", "import.sty")

    built = build(folder, article(taking, preamble=r"\usepackage{import}" + PACKAGE), name=name)

    assert built.complaints == []
    assert "Batch size" in built.text


@pytest.mark.parametrize("language", ["english", "german"])
def test_a_section_alone_refers_to_others_by_their_titles(folder: Path, language: str) -> None:
    need("pdflatex", "ngerman.ldf")
    preamble = (
        r"\usepackage[ngerman,english]{babel}\usepackage{hyperref}"
        rf"\usepackage[language={language}]{{measured/gpu_report}}"
    )
    body = [r"\input{measured/sections/summary}", r"\input{measured/sections/workers}"]

    built = build(folder, article(*body, preamble=preamble), name=f"titles-{language}")

    words = ("of the full report", "des ganzen Berichts")[language == "german"]
    assert built.complaints == []
    for title in ("What to do", "Threats to validity", "How a number is measured"):
        assert f"‘{title}’ {words}" in built.text
    assert not re.search(r"recommendations|reliability|‘method’", built.text)


def test_a_document_cites_only_when_it_asks_and_lists_our_references_with_its_own(
    folder: Path,
) -> None:
    need("pdflatex", "unsrt.bst")
    (folder / "mine.bib").write_text("@misc{mine, title = {A work of mine}}\n", encoding="utf-8")
    body = [r"\cite{mine}", r"\input{measured/sections/machine}", r"\bibliographystyle{unsrt}"]
    body.append(r"\bibliography{mine,measured/references}")

    texts = []
    for name, options in (("silent", FEW), ("citing", f"{FEW},citations")):
        document = article(*body, preamble=rf"\usepackage[{options}]{{measured/gpu_report}}")
        build(folder, document, name=name)
        subprocess.run(["bibtex", name], cwd=folder, capture_output=True, check=True)
        built = build(folder, document, name=name)
        assert [line for line in built.complaints if "Reference" not in line] == []
        texts.append(built.text)

    silent, citing = texts
    assert set(re.findall(r"\[\d+\]", silent)) == {"[1]"}
    assert re.search(r"Holm’s method \[\d+\]", citing)
    assert "[1] A work of mine" in silent
    assert "Sture Holm" not in silent
    assert "Sture Holm" in citing


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "before-all",
            "",
            r"\usepackage[ngerman,english]{babel}\usepackage[backend=bibtex]{biblatex}\usepackage[final]{graphicx}"
            r"\usepackage[table,dvipsnames]{xcolor}\usepackage{array,booktabs,siunitx}\usepackage[hidelinks]{hyperref}"
            r"\usepackage{cleveref}",
        ),
        (
            "shorthands",
            r"\usepackage[english,ngerman]{babel}",
            r"\usepackage{hyperref}\usepackage[strings]{underscore}",
        ),
    ],
)
def test_packages_of_the_document_are_loaded_before_or_after_ours(
    folder: Path, name: str, before: str, after: str
) -> None:
    need("pdflatex", "cleveref.sty", "biblatex.sty", "ngerman.ldf", "underscore.sty")
    referring = r"See \ref{gpurep:tab:xeon-2c/batch_size}."

    built = build(folder, article(ALL, referring, preamble=before + PACKAGE + after), name=name)

    assert [line for line in built.complaints if "biblatex" not in line] == []
    assert "See 2." in built.text


def test_two_reports_are_in_one_document_each_with_its_numbers(folder: Path) -> None:
    need("pdflatex")
    preamble = rf"\usepackage{{hyperref}}\usepackage[prefix=a:,{FEW}]{{measured/gpu_report}}"
    second = [
        r"\gpurepsetup{folder=deep er/b_2, prefix=b:}",
        r"\input{deep er/b_2/gpu_analysis_sections}",
    ]
    both = r"One has \gpurep{study/variants}, named \gpurep{a:xeon-2c/study/variants}. "

    built = build(folder, article(both, ALL, *second, both, preamble=preamble), name="two")

    variants = [
        len(results_on(*devices).tables.variants) for devices in (("cpu", "cuda"), ("cpu",))
    ]
    assert built.complaints == []
    assert f"One has {variants[0]}, named {variants[0]}." in built.text
    assert f"One has {variants[1]}, named {variants[0]}." in built.text


def test_every_switch_does_what_it_says(folder: Path) -> None:
    need("pdflatex")
    options = "language=german,level=chapter,prefix=mine:,sections={batch_size}"
    preamble = rf"\usepackage[{options}]{{measured/gpu_report}}"
    body = [
        ALL,
        r"See \ref{mine:sec:batch_size}.",
        r"\gpurepsetup{prefix=other:,level=section,language=english}",
        ALL,
    ]

    built = build(
        folder, article(*body, preamble=preamble, document_class="{report}"), name="switches"
    )

    assert built.complaints == []
    assert "Chapter 1" in built.text
    assert "See 1." in built.text
    assert "Tabelle 1.1" in built.text
    assert "Table 1.2" in built.text
    assert "Summary" not in built.text


def test_an_answer_is_in_the_language_of_the_document(folder: Path) -> None:
    need("pdflatex")
    preamble = r"\usepackage[T1]{fontenc}\usepackage[language=german]{measured/gpu_report}"
    words = ("Yes.", "No.", "Too close to call.")
    body = [rf"\gpurepfinding{{Is it? \gpurepword{{{word}}}}}{{It was.}}" for word in words]
    findings = [r"\begin{gpurepfindings}", *body, r"\end{gpurepfindings}"]

    built = build(folder, article(*findings, preamble=preamble), name="answers")

    assert built.text.startswith(
        "Is it? Ja. It was. Is it? Nein. It was. Is it? Zu knapp für eine Entscheidung. It was."
    )


@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_no_cell_of_a_table_mixes_the_decimal_marks_of_two_languages(
    folder: Path, engine: str
) -> None:
    need(engine, "siunitx.sty", "ngerman.ldf")
    preamble = (
        r"\usepackage[ngerman]{babel}\usepackage{siunitx}\sisetup{locale=DE}"
        r"\usepackage[language=german]{measured/gpu_report}\renewcommand\gpurepnote[1]{}"
    )
    names = ("device", "crossover", "optimization", "peaks")
    floats = [rf"\gpurepfloat{{tab/xeon-2c/{name}}}" for name in names]
    body = [r"\renewcommand\caption[2][]{}", *floats, r"\gpurepfloat{tab/workloads}"]

    built = build(folder, article(*body, preamble=preamble), engine=engine, name="german")

    assert built.complaints == []
    assert re.search(r"\d,\d+ ± \d,\d", built.text)
    assert re.search(r"\(\d+,\d+ to \d+,\d", built.text)
    assert re.findall(r"\d\.\d", built.text) == []
    assert "124 475 904" in built.text


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("level=part", "level=part is unknown"),
        ("language=latin", "language=latin is unknown"),
        ("sections={nothing}", "there is no section `nothing'"),
        ("level=chapter", "this document class has no chapters"),
    ],
)
def test_a_switch_that_cannot_be_followed_is_an_error_that_says_so(
    folder: Path, option: str, said: str
) -> None:
    need("pdflatex")
    preamble = rf"\usepackage[sections=batch_size,{option}]{{measured/gpu_report}}"

    with pytest.raises(AssertionError, match=said):
        build(folder, article(ALL, preamble=preamble), name="refused")


ENDFLOAT = r"\usepackage[nomarkers]{endfloat}"


@pytest.mark.parametrize(
    ("name", "before", "after"), [("end-before", ENDFLOAT, ""), ("end-after", "", ENDFLOAT)]
)
def test_endfloat_sets_the_floats_at_the_end_each_from_its_report(
    folder: Path, name: str, before: str, after: str
) -> None:
    need("pdflatex", "endfloat.sty")
    ours = rf"\usepackage[prefix=a:,{FEW}]{{measured/gpu_report}}"
    preamble = rf"{before}{ours}{after}\usepackage{{hyperref}}"
    own = r"""\begin{figure}
\caption{Of mine}
\end{figure}"""
    second = [
        r"\gpurepsetup{folder=deep er/b_2, prefix=b:}",
        r"\input{deep er/b_2/gpu_analysis_sections}",
    ]
    referring = (
        r"See \ref{a:tab:xeon-2c/batch_size} and \ref{b:tab:xeon-2c/batch_size}. The text ends."
    )

    built = build(folder, article(ALL, own, *second, referring, preamble=preamble), name=name)
    plain = build(
        folder,
        article(ALL, own, *second, preamble=preamble.replace(ENDFLOAT, "")),
        name=f"{name}-plain",
    )

    assert built.complaints == []
    text, floats = built.text.split("The text ends.")
    captions = [re.findall(r"(?:Table|Figure) \d+:", words) for words in (text, floats, plain.text)]
    assert captions[0] == []
    assert sorted(captions[1]) == sorted(captions[2])
    assert re.search(r"See \d+ and \d+\.", text)
    pictures = [sorted(re.findall(r"<use (.+?)>", each.log)) for each in (built, plain)]
    assert {*pictures[0]} == {*pictures[1]}


@pytest.mark.parametrize("option", ["figuresonly", "disable"])
def test_endfloat_leaves_the_floats_in_the_text_that_it_is_told_to(
    folder: Path, option: str
) -> None:
    need("pdflatex", "endfloat.sty")
    preamble = rf"\usepackage[{option}]{{endfloat}}" + PACKAGE.replace("batch_size", "device")

    ending = r"\clearpage The text ends."
    built = build(folder, article(ALL, ending, preamble=preamble), name=f"end-{option}")

    text, floats = built.text.split("The text ends.")
    assert built.complaints == []
    assert "Table 1:" in text
    assert ("Figure 1:" in floats) == (option == "figuresonly")


def test_a_frame_and_a_minipage_hold_one_float_where_it_stands(folder: Path) -> None:
    need("pdflatex", "beamer.cls")
    frames = [
        rf"\begin{{frame}}\frametitle{{One}}\gpurepfloat{{{key}}}\end{{frame}}"
        for key in (TABLE, FIGURE)
    ]
    boxes = [
        rf"Word\begin{{minipage}}{{6cm}}\gpurepfloat{{{key}}}\end{{minipage}}\par"
        for key in (TABLE, FIGURE)
    ]

    slides = build(folder, article(*frames, document_class="{beamer}"), name="slides")
    paper = build(folder, article(*boxes), name="boxes")

    assert slides.complaints == []
    assert slides.pages == 2
    assert paper.complaints == []
