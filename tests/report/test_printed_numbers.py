"""Every number that a report prints stands in numbers.csv or in another CSV file behind it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from gpu_report.answers.finding import findings_to_csv
from gpu_report.answers.machines import derive_comparison
from gpu_report.figures.registry import available_figures
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.tables.variants import COMPARISON
from gpu_report.writing.environment import TEMPLATES
from gpu_report.writing.machine import MachineResults
from tests.report.printed import FACTORS, Printed, numbers_in, printed, wide_text
from tests.report.printed_sources import Sources, unfounded
from tests.report.synthetic import (
    comparison_of,
    render_devices,
    render_two_machines,
    results_on,
    two_machines,
    write_report,
)

ON_BOTH = ("cpu", "cuda")
TYPED = re.compile(r"(?<![\w.-])\d[\d.,]*(?![\w-])")
"""A number that is no part of a name such as fp32 or SHA-256."""
SUMMED: Final = ("phases", "parts")
"""Kinds of figures with numbers that are sums of the rows of their table."""
UNSAID: Final = (
    re.compile(r"%%.*"),
    re.compile(r"\\(?:VAR|BLOCK)\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"),
    re.compile(r"\\[\[(].*?\\[\])]", re.DOTALL),
    re.compile(r"\$[^$]*\$"),
    re.compile(r"\\gpurep\w*\{[^}]*\}"),
)
"""Of a template: comments, code, formulas, and numbers by their key."""


def write_tables(folder: Path, machines: Sequence[MachineResults]) -> list[Path]:
    """The CSV files of these machines, as the pipeline writes them."""
    for machine in machines:
        texts = {
            table.name: table.rows_to_csv(rows_of(getattr(machine.tables, table.name)))
            for table in STUDY_TABLES
        }
        texts |= {
            name: EXPERIMENT.rows_to_csv(rows_of(frame))
            for name, frame in machine.tables.experiments.items()
        }
        write_all(folder / machine.id, {**texts, "findings": findings_to_csv(machine.findings)})
    comparison = comparison_of(machines)
    compared = {
        "comparison": COMPARISON.rows_to_csv(rows_of(comparison)),
        "findings": findings_to_csv(derive_comparison(comparison)),
    }
    write_all(folder / "compared", compared)
    return list(folder.rglob("*.csv"))


def write_all(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")


def lost_numbers(
    folder: Path, files: Mapping[str, str], machines: Sequence[MachineResults]
) -> list[str]:
    """The numbers that a report of these files prints and no CSV file has, each with the words
    around it.
    """
    write_report(folder / "report", files, machines)
    text = wide_text(folder / "report")
    assert len(list(printed(text))) > 350
    paths = [*write_tables(folder / "results", machines), *(folder / "report").rglob("*.csv")]
    return [str(number) for number in unfounded(text, Sources.read(paths))]


@pytest.mark.parametrize("devices", [pytest.param(("cpu",), marks=pytest.mark.slow), ON_BOTH])
def test_every_number_of_a_report_is_in_a_csv(tmp_path: Path, devices: tuple[str, ...]) -> None:
    assert lost_numbers(tmp_path, render_devices(*devices), [results_on(*devices)]) == []


@pytest.mark.slow
def test_every_number_of_a_report_on_two_machines_is_in_a_csv(tmp_path: Path) -> None:
    assert lost_numbers(tmp_path, render_two_machines(), two_machines()) == []


@pytest.mark.slow
def test_every_number_written_into_a_figure_is_in_a_csv_and_a_false_one_is_reported(
    tmp_path: Path,
) -> None:
    machine = results_on(*ON_BOTH)
    numbers = tmp_path / "numbers.csv"
    numbers.write_text(render_devices(*ON_BOTH)["numbers.csv"], encoding="utf-8")
    sources = Sources.read([*write_tables(tmp_path / "results", [machine]), numbers], drawn=True)
    behind = {
        each.name: (*(Path(source).name for source in each.sources), "variants.csv")
        for each in machine.drawn
    }
    specs = available_figures(machine.tables, machine.experiments)
    drawn = {spec.name: spec.draw() for spec in specs if spec.kind not in SUMMED}
    drawn["device_speedup"].text(0.5, 0.5, "7731.5×")

    found = [
        (name, number)
        for name, figure in drawn.items()
        for number in numbers_drawn(figure, behind[f"{machine.id}/{name}"])
    ]

    assert len(found) > 150
    assert [(name, number.text) for name, number in found if not sources.hold(number)] == [
        ("device_speedup", "7731.5")
    ]


def numbers_drawn(figure: Figure, sources: tuple[str, ...]) -> Iterator[Printed]:
    """The numbers in a figure but those along its axes, which are the scale that is read."""
    axes = [axis for each in figure.axes for axis in (each.xaxis, each.yaxis)]
    scales = [axis for axis in axes if not isinstance(axis.get_major_formatter(), FixedFormatter)]
    ticks = {label for axis in scales for label in axis.findobj(Text) if label is not axis.label}
    texts = [
        text.get_text().replace("\N{NO-BREAK SPACE}", " ")
        for text in figure.findobj(Text)
        if text not in ticks
    ]
    units = tuple(unit for unit in FACTORS if unit and any(f"({unit}" in text for text in texts))
    for text in texts:
        yield from numbers_in(text, units, sources)


FALSE: Final = (
    (
        "sections/summary.tex",
        r"\end{gpureptext}",
        r"It took 7651.3\,ms, on 4 May 2031.\end{gpureptext}",
    ),
    (
        "sections/device.tex",
        r"\end{gpureptext}",
        r"It is 1234567 times as fast as b17-cuda in 7300 runs.\end{gpureptext}",
    ),
    ("floats/tab/xeon-2c/device.tex", r"\caption[", r"\caption[]{Of 98.7654.}\caption["),
    ("floats/tab/xeon-2c/device.tex", "CELL", r"71.77 & $\pm$\,\gpurepnum{0.11}"),
    ("floats/fig/xeon-2c/device_speedup.tex", "{Speedup over", r"{Within 47.11\,\% over"),
    ("sections/transfer.tex", r"\end{gpureptext}", r"\footnote{~Not 62.5\,GB/s.}\end{gpureptext}"),
)
"""File of the report, what in it to replace, by what; CELL is the first number with an interval."""


@pytest.mark.slow
def test_false_numbers_are_reported_wherever_they_stand(tmp_path: Path) -> None:
    files = dict(render_devices(*ON_BOTH))
    for name, place, false in FALSE:
        cell = re.search(r"\d[\d.]* & \$\\pm\$\\,\\gpurepnum\{[\d.]+\}", files[name])
        planted = files[name].replace(cell[0] if place == "CELL" and cell else place, false, 1)
        assert planted != files[name]
        files[name] = planted

    told = lost_numbers(tmp_path, files, [results_on(*ON_BOTH)])

    found = [number.partition(" in: ")[0] for number in told]
    assert sorted(found) == [
        "1234567",
        "2031-05-04",
        "47.11",
        "62.5",
        "71.77",
        "7300",
        "7651.3",
        "98.7654",
        "b17-cuda",
    ]


@pytest.mark.parametrize(
    "template", sorted((TEMPLATES / "sections").glob("*.j2")), ids=lambda path: path.name
)
def test_no_number_but_0_and_1_is_typed_into_a_sentence(template: Path) -> None:
    text = template.read_text("utf-8")
    for silent in UNSAID:
        text = silent.sub("", text)

    assert [number for number in TYPED.findall(text) if number.rstrip(".,") not in ("0", "1")] == []
