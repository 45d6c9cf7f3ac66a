from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.environment import Templates, render
from gpu_report.writing.tex import Tex

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_template(text: str) -> Path:
        (tmp_path / "page.tex.j2").write_text(text, encoding="utf-8")
        return tmp_path

    return write_template


def fill(folder: Path, **values: object) -> str:
    return render(Templates([folder]), "page.tex.j2", values)


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        (r"\VAR{name}", {"name": "a_b & <c>"}, r"a\_b \& \textless{}c\textgreater{}"),
        (r"\VAR{name}", {"name": Tex(r"\emph{a_b}")}, r"\emph{a_b}"),
        (r"\VAR{'<&'}", {}, r"\textless{}\&"),
        (
            r"\BLOCK{macro bold(x)}\textbf{\VAR{x}}\BLOCK{endmacro}\VAR{bold(name)}",
            {"name": "a_b"},
            r"\textbf{a\_b}",
        ),
        (r"\BLOCK{set x}\VAR{name}!\BLOCK{endset}\VAR{x}", {"name": "a_b"}, r"a\_b!"),
        (r"\VAR{names|join(' & ')}", {"names": ["a_b", Tex("$c$")]}, r"a\_b \& $c$"),
        (r"\VAR{names|sentence_list}", {"names": ["1"]}, "1"),
        (r"\VAR{names|sentence_list}", {"names": ["1", "2", "3"]}, "1, 2 and 3"),
        (
            r"\VAR{names|sentence_list}",
            {"names": [str(number) for number in range(1, 251)]},
            "1, 2, 247 more and 250",
        ),
        (r"\label{\VAR{name|key}}", {"name": "a_b c{}\\"}, r"\label{a_b-c---}"),
        (r"{\bf \VAR{{'k': name}['k']}}\#{a comment}", {"name": "x"}, r"{\bf x}"),
    ],
)
def test_values_are_escaped_for_tex_once_and_wherever_they_come_from(
    write: Write, template: str, values: dict[str, Any], text: str
) -> None:
    assert fill(write(template), **values) == text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (r"\VAR{nobody}", "'nobody' is undefined"),
        (r"\VAR{name.nothing}", "no attribute 'nothing'"),
        (r"\BLOCK{if name}", "Unexpected end of template"),
        (r"\VAR{name|upper}", "No filter named 'upper'"),
        (r"\VAR{name ~ name}", "'~' is not for TeX"),
        (r"\VAR{1.5}", "a float (1.5) is printed; give the template formatted text"),
        (r"\VAR{none}", "a NoneType (None) is printed"),
        (r"\VAR{name + 1}", "can only concatenate str"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_line_and_reason(
    write: Write, line: str, reason: str
) -> None:
    folder = write(f"first\nsecond\n{line}\n")

    with pytest.raises(ReportError) as caught:
        fill(folder, name="x")

    message = str(caught.value)
    assert message.startswith(f"{folder / 'page.tex.j2'}:3: ") or "end of template" in message
    assert reason in message
    assert "\n" not in message


def test_a_missing_template_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        ReportError, match=r"sections/mine\.tex\.j2: there is no such template; put it back"
    ):
        render(Templates([tmp_path]), "sections/mine.tex.j2", {})


def test_a_value_that_looks_like_a_template_is_not_carried_out(write: Write) -> None:
    assert "49" not in fill(write(r"\VAR{name}"), name=r"\VAR{7*7} {{7*7}}")
