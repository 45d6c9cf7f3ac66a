"""Numbers quoted by a document: in titles, captions and maths, with and without siunitx, under
several prefixes.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpu_report.printing.number_format import duration, quantity, ratio, share
from gpu_report.writing.environment import TEMPLATES
from gpu_report.writing.numbers import numbers_tex
from gpu_report.writing.table import KeyedNumber

UNBROKEN_LOG = {**os.environ, "max_print_line": "1000"}
QUANTITIES = {
    "speedup": ratio(12.3456, low=11.91, high=12.83),
    "step_time": duration(4.612e-5, low=4.58e-5, high=4.66e-5),
    "loss": quantity(1.234e-7, low=1.1e-7, high=1.3e-7),
    "saved": share(-0.121, low=-0.14, high=-0.1),
    "parameters": quantity(31_037_763),
}


def write_numbers(folder: Path, machine: str, factor: float = 1.0) -> None:
    folder.mkdir(exist_ok=True)
    numbers = {**QUANTITIES, "speedup": ratio(12.3456 * factor)} if factor != 1.0 else QUANTITIES
    found = [
        KeyedNumber(key=f"{machine}/unet/{key}", quantity=number, table="")
        for key, number in numbers.items()
    ]
    (folder / "numbers.tex").write_text(numbers_tex(found, machine=machine), encoding="utf-8")
    shutil.copy(TEMPLATES / "gpu_report.sty", folder)


def compiled(
    folder: Path,
    body: str,
    *,
    packages: str = "",
    runs: int = 1,
    engine: str = "pdflatex",
    options: str = "",
    class_options: str = "",
) -> str:
    """The text of the document's PDF; its log where it did not compile."""
    if not (folder / "numbers.tex").exists():
        write_numbers(folder, "h100")
    text = rf"""\documentclass[{class_options}]{{article}}
\usepackage[T1]{{fontenc}}\usepackage{{lmodern}}{packages}\usepackage[{options}]{{gpu_report}}
\begin{{document}}{body}\end{{document}}"""
    (folder / "host.tex").write_text(text, encoding="utf-8")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "host.tex"]
    finished = None
    for _ in range(runs):
        finished = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=UNBROKEN_LOG,
        )
    if finished is None or finished.returncode:
        return (folder / "host.log").read_text("utf-8", errors="replace")
    shown = subprocess.run(
        ["pdftotext", "-layout", "host.pdf", "-"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return " ".join(shown.stdout.split())


@pytest.mark.parametrize("engine", ["pdflatex", pytest.param("lualatex", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "packages",
    [
        pytest.param("", marks=pytest.mark.slow),
        pytest.param(r"\usepackage{siunitx}", marks=pytest.mark.slow),
        r"\usepackage{hyperref}\usepackage{siunitx}",
    ],
)
def test_a_number_is_in_titles_captions_and_maths(
    tmp_path: Path, packages: str, engine: str
) -> None:
    text = compiled(
        tmp_path,
        r"\tableofcontents\section{Gains \gpurep{unet/speedup}}Takes "
        r"\gpurep{h100/unet/step_time}, $x = \gpurep{unet/step_time}$, saved \gpurep{unet/saved}."
        r"\begin{figure}\caption[Short \gpurep{unet/speedup}]{Long "
        r"\gpurep{unet/step_time}}\end{figure} Lost \gpurep{unet/loss}. Alone "
        r"\gpurepvalue{unet/speedup} from \gpureplow{unet/speedup} to \gpurephigh{unet/speedup}.",
        packages=packages,
        runs=2,
        engine=engine,
    )

    assert text.count("Gains 12.35× (11.91 to 12.83)") == 2
    assert "Takes 46.12 µs (45.80 to 46.60)" in text.replace("μ", "µ")
    assert "Long 46.12" in text
    assert "saved −12.1 % (−14.0 to −10.0)" in text
    assert "Lost1.23×10−7(1.10×10−7to1.30×10−7)" in text.replace(" ", "")
    assert "Alone 12.35 from 11.91 to 12.83" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "told"), [("unet/sped_up", "unet/sped_up"), ("unet/sp#eedup", "unet/sp##eedup")]
)
def test_a_key_that_no_number_has_is_an_error_that_names_the_nearest(
    tmp_path: Path, key: str, told: str
) -> None:
    log = compiled(tmp_path, rf"\gpurep{{{key}}}")

    assert f"there is no number `{told}'; nearest: unet/speedup" in " ".join(log.split())
    assert "Illegal parameter" not in log


@pytest.mark.slow
def test_the_machine_of_a_short_key_can_be_chosen(tmp_path: Path) -> None:
    write_numbers(tmp_path, "h100")
    with (tmp_path / "numbers.tex").open("a", encoding="utf-8") as numbers:
        numbers.write(r"\gpurepnumber{laptop/unet/speedup}{3.2}{}{}{\gpurepx}" + "\n")

    shown = [
        compiled(tmp_path, r"\gpurep{unet/speedup}", options=options)
        for options in ("", "machine=laptop")
    ]

    assert [text.split()[0] for text in shown] == ["12.35×", "3.2×"]


@pytest.mark.slow
def test_an_option_of_the_class_is_none_of_the_package(tmp_path: Path) -> None:
    text = compiled(
        tmp_path, r"Is \gpurep{unet/speedup}.", class_options="language=none,flat,prefix=x"
    )

    assert text.startswith("Is 12.35× (11.91 to 12.83).")
