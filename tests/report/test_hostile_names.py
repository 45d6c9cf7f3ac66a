"""Hostile names, printed where reports print names: nothing executes, and the text shows them as
they are.
"""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gpu_report.figures.drawing import write_pgf
from gpu_report.figures.labels import printable
from gpu_report.figures.registry import available_figures
from gpu_report.figures.style import figure_bytes, new_figure, report_style
from gpu_report.printing.terminal import clean
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.machine_facts import MACHINE
from gpu_report.writing.latex import compile_report, find_engine, newest_measurement
from gpu_report.writing.tex import breakable, escape, shorten
from tests.factories import ENVIRONMENT, make_record, make_study, make_tables
from tests.report.hostile import FORBIDDEN_FILE, SECRET, as_read, hostile_names
from tests.report.latex_log import log_problems, problems_of
from tests.report.printed import wide_text
from tests.report.synthetic import TEMPLATES, render_machines, results_of, write_report

_SHORT: Final = 60
_PLACES: Final[Mapping[str, Callable[[str], str]]] = {
    "heading": lambda name: rf"\section{{{escape(name)}}}",
    "caption": lambda name: rf"\captionof{{table}}[{escape(name)}]{{{escape(name)}}}",
    "cells": lambda name: (
        rf"\begin{{tabular}}{{ll}}{escape(name)} & {breakable(name)} \\ {escape(name)} "
        rf"\\\end{{tabular}}"
    ),
    "item": lambda name: (
        rf"\begin{{description}}\item[\gpurepname{{{breakable(name)}}}] "
        rf"{escape(name)}\end{{description}}"
    ),
    "sentence": lambda name: f"In {escape(name)}, it says.",
    "typewriter": lambda name: rf"\gpurepname{{{breakable(name)}}}",
    "shortened": lambda name: rf"\gpurepname{{{breakable(shorten(name, _SHORT))}}}",
}
_TIMES: Final = {"caption": 2, "cells": 3, "item": 2}
"""How often a place prints its name; the caption's second one is in the list of tables."""

_PREAMBLE: Final = r"""\documentclass[11pt]{article}
\usepackage{iftex}
\ifpdftex\usepackage[T1]{fontenc}\usepackage{lmodern}\fi
\usepackage[paperwidth=@width mm,textwidth=@text mm,paperheight=2000mm,textheight=1900mm]{geometry}
\usepackage{caption}
\usepackage{pgf}
\usepackage{hyperref}
\usepackage{bookmark}
\usepackage[prefix=x:]{gpu_report}
\setcounter{secnumdepth}{0}
\pagestyle{empty}
\begin{document}\raggedright\parindent0pt
"""


def compiled(
    folder: Path, body: str, *, engine: str, text_mm: int, runs: int = 1
) -> tuple[str, list[str]]:
    """What the document says, and what its log complains of; a file with a secret lies
    beside it.
    """
    preamble = _PREAMBLE.replace("@width", str(text_mm + 100)).replace("@text", str(text_mm))
    (folder / "gpu_report.sty").write_text(
        (TEMPLATES / "gpu_report.sty").read_text("utf-8"), encoding="utf-8"
    )
    (folder / "secret.tex").write_text(SECRET, encoding="utf-8")
    (folder / "names.tex").write_text(f"{preamble}{body}\n\\end{{document}}\n", encoding="utf-8")
    command = [
        engine,
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-file-line-error",
        "-no-shell-escape",
        "names.tex",
    ]
    for _ in range(runs):
        finished = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        assert finished.returncode == 0, finished.stdout[-2000:].decode(errors="replace")
    text = subprocess.run(
        ["pdftotext", "-raw", "names.pdf", "-"], cwd=folder, capture_output=True, check=True
    ).stdout
    return text.decode(), log_problems((folder / "names.log").read_text("utf-8", errors="replace"))


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "turns"), [("pdflatex", 2), ("lualatex", 1)])
def test_two_thousand_hostile_names_are_read_back_as_they_are_in_every_place(
    tmp_path: Path, engine: str, turns: int
) -> None:
    names = hostile_names(2000)
    places = list(_PLACES)
    printed = [
        (name, places[(index + turn) % len(places)])
        for turn in range(turns)
        for index, name in enumerate(names)
    ]
    parts = [
        f"BEGIN{at} \\par {_PLACES[place](name)} \\par END{at}\\par"
        for at, (name, place) in enumerate(printed)
    ]

    text, problems = compiled(
        tmp_path, "\\listoftables\n" + "\n".join(parts), engine=engine, text_mm=4000, runs=turns
    )

    shown = {
        int(found[1]): found[2]
        for found in re.finditer(r"BEGIN(\d+)\s(.*?)\sEND\1\b", text, re.DOTALL)
    }
    distorted = [
        (name, place, shown.get(at))
        for at, (name, place) in enumerate(printed)
        if not is_shown(name, place, shown.get(at, ""))
    ]
    assert distorted == []
    assert problems == []
    assert_nothing_was_executed(tmp_path, text)


def is_shown(name: str, place: str, text: str) -> bool:
    """Whether the text of a place is the name, as often as the place prints it, and the words
    around it.
    """
    around = {"sentence": ("In", ",itsays."), "caption": (r"Table\d+:", "")}.get(place, ("", ""))
    wanted = as_read(shorten(name, _SHORT) if place == "shortened" else name)
    times = {"cells": 3, "item": 2}.get(place, 1)
    return (
        re.fullmatch(around[0] + re.escape(wanted * times) + re.escape(around[1]), as_read(text))
        is not None
    )


def assert_nothing_was_executed(folder: Path, text: str) -> None:
    assert SECRET not in text
    assert "root:x:0" not in text
    assert str(7 * 7191) not in text
    assert [path.name for path in folder.rglob(f"*{FORBIDDEN_FILE}*")] == []


@pytest.mark.slow
def test_hostile_names_stay_inside_narrow_columns(tmp_path: Path) -> None:
    cells = [rf"\gpurepname{{{breakable(name)}}}\par" for name in hostile_names(2000)]
    prose = [rf"In {escape(name)} it says.\par" for name in hostile_names(2000)]

    _, problems = compiled(tmp_path, "\n".join([*cells, *prose]), engine="pdflatex", text_mm=60)

    assert problems == []


class Names:
    """Hands out hostile names of every sort, each once, and keeps them."""

    def __init__(self, *, longest: int) -> None:
        self._left: Iterator[str] = iter(
            name for name in hostile_names()[::7] if 2 < len(name) <= longest
        )
        self.used: list[str] = []

    def next(self) -> str:
        self.used.append(next(self._left))
        return self.used[-1]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_a_report_made_of_hostile_names_shows_them_and_executes_none(
    tmp_path: Path, engine: str
) -> None:
    names = Names(longest=40)
    study = make_study(devices=("cpu",))
    study = replace(
        study,
        experiments=tuple(
            replace(each, question=names.next()) for each in study.experiments if each.variants
        ),
    )
    untitled = replace(
        study.experiments[0], name="an_experiment_without_a_template", question=names.next()
    )
    study = replace(study, experiments=(*study.experiments, untitled))
    facts = {
        workload: {
            fact: names.next()
            for fact in (
                "title",
                "data_description",
                "sample_description",
                "quality_name",
                "optimizer",
                "loss",
            )
        }
        for workload in dict.fromkeys(variant.workload for variant in study.variants)
    }
    environment = {
        **ENVIRONMENT,
        "os": names.next(),
        "cpu_model": names.next(),
        "accelerator": names.next(),
    }
    environment |= {f"fact {number}": names.next() for number in range(9)}
    records = [
        make_record(
            variant.slug, machine="x", facts=facts[variant.workload], environment=environment
        )
        for variant in study.variants
    ]
    records[-2:] = [
        make_record(
            record.variant,
            machine="x",
            status="failed",
            reason=" ".join(names.next() for _ in range(40)),
        )
        for record in records[-2:]
    ]
    operations = {names.next(): names.next() for _ in range(5)}
    results = results_of(
        study, records=records, tables=make_tables(study, records, operations=operations)
    )
    files = render_machines(study, [results], title=names.next())
    folder = write_report(tmp_path, files, [results])
    (folder / "secret.tex").write_text(SECRET, encoding="utf-8")

    compiled = compile_report(
        folder,
        dated=newest_measurement(rows_of(results.tables.variants)),
        engine=find_engine(engine),
    )

    text = wide_text(folder)
    shown = as_read(text).lower()
    # A table has what a terminal would obey as its escape.
    spelled = {name: {as_read(each).lower() for each in (name, clean(name))} for name in names.used}
    assert [name for name, ways in spelled.items() if not any(way in shown for way in ways)] == []
    assert problems_of(compiled) == []
    assert_nothing_was_executed(tmp_path, text)


def test_hostile_names_come_back_from_a_table_with_their_control_characters_escaped(
    tmp_path: Path,
) -> None:
    rows = [{"topic": "name", "name": name, "value": name[::-1]} for name in hostile_names()]
    path = tmp_path / "machine.csv"

    path.write_bytes(MACHINE.rows_to_csv(rows).encode())

    expected = [{column: clean(text) for column, text in row.items()} for row in rows]
    assert MACHINE.read_csv(path).to_dict("records") == expected


@pytest.mark.slow
def test_a_name_in_a_figure_is_no_formula(tmp_path: Path) -> None:
    study = make_study(devices=("cpu",))
    titles = iter(
        [
            r"$x^2_1$ 5%",
            r"a_b$c$ \frac{1}{2}",
            r"{k}\\&#~ $",
            "$$ ^ _ <T>",
            r"\alpha $\beta$",
            "100% $1_2$",
        ]
    )
    names = {
        workload: next(titles)
        for workload in dict.fromkeys(variant.workload for variant in study.variants)
    }
    records = [
        make_record(each.slug, facts={"title": names[each.workload]}) for each in study.variants
    ]
    tables = make_tables(study, records)

    figures = [spec.draw() for spec in available_figures(tables, study.experiments)]

    shown = "".join(text_of(figure_bytes(figure), tmp_path) for figure in figures)
    assert [name for name in names.values() if as_read(name) not in as_read(shown)] == []


def text_of(pdf: bytes, folder: Path) -> str:
    (folder / "figure.pdf").write_bytes(pdf)
    return subprocess.run(
        ["pdftotext", "-raw", folder / "figure.pdf", "-"], capture_output=True, check=True
    ).stdout.decode()


@pytest.mark.slow
def test_a_document_that_draws_hostile_names_in_its_own_fonts_shows_them_too(
    tmp_path: Path,
) -> None:
    names = dict.fromkeys(printable(name) for name in hostile_names()[::13] if len(name) <= 40)
    with report_style():
        figure = new_figure(height_in=40)
        axes = figure.add_subplot()
        for row, name in enumerate(names):
            axes.text(0, row / len(names), f"BEGIN{row} {name} END{row}")

    write_pgf(
        figure,
        tmp_path / "figure.pgf",
        escape=lambda text: escape(text).replace(r"\gpurepbreak{}", ""),
    )

    text, problems = compiled(
        tmp_path, r"\noindent\input{figure.pgf}", engine="pdflatex", text_mm=400
    )
    shown = as_read(text)
    assert [
        name for row, name in enumerate(names) if f"BEGIN{row}{as_read(name)}END{row}" not in shown
    ] == []
    assert problems == []
    assert_nothing_was_executed(tmp_path, text)
