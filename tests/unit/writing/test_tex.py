import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.printing.number_format import (
    Quantity,
    count,
    duration,
    memory,
    percent,
    quantity,
    scaled,
    share,
    size,
    throughput,
)
from gpu_report.writing.tex import Tex, breakable, escape, pdf_string

BARE_SPECIAL = re.compile(r"(?<!\\)[_#&%$~^]")


@pytest.mark.parametrize(
    "shown",
    [
        *(duration(seconds) for seconds in (12.3, 0.0123, 0.0000123)),
        *(memory(mib) for mib in (12.3, 12300)),
        *(size(byte_count) for byte_count in (12, 12288, 2**21, 2**31)),
        *(
            scaled(value, unit)
            for value in (0.05, 12.3, 1.2e4, 3.1e9, 2e12, 4e15)
            for unit in ("FLOP/s", "FLOP", "B/s", "J", "W")
        ),
        *(quantity(12.3, unit) for unit in ("FLOP/B", "°C", "MHz", "kWh")),
        *(share(0.123), percent(12.3), throughput(456.0), count(3), count(30, "%")),
    ],
    ids=Quantity.plain,
)
def test_plain_numbers_get_the_space_before_their_unit_that_numbers_in_tables_have(
    shown: Quantity,
) -> None:
    assert str(escape(f"It is {shown.plain()}, no more.")).count(r"\,") == bool(shown.unit)


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("a_b", r"a\_b"),
        ("50 % & more", r"50\,\% \& more"),
        ("12.3 ms, 5 samples/s", r"12.3\,ms, 5\,samples/s"),
        ("3 models in 2 segments, 5 s-1", "3 models in 2 segments, 5 s-1"),
        ("(1234.56–1240.12 samples/s)", r"(1234.56\textendash{}1240.12\,samples/s)"),
        ("a~b^c", r"a\textasciitilde{}b\textasciicircum{}c"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("<T>", r"\textless{}T\textgreater{}"),
        ("x--y", r"x-\mbox{}-y"),
        ("a<<b", r"a\textless{}\mbox{}\textless{}b"),
        ("[1]*", "{[}1{]}{*}"),
        ("naïve ß", r"na{\"{\i}}ve \ss{}"),
        ("2×µ", r"2\ensuremath{\times}\ensuremath{\mu}"),
        ("中🙂", "U+4E2DU+1F642"),
        ("中A", r"U+4E2D\,A"),
        ("é ţ ķ", r"{\'{e}} {\c{t}} U+0137"),
        ("a\tb\n\n c", "a b c"),
        ("\x00", "U+0000"),
    ],
)
def test_a_text_is_escaped_so_that_it_prints_as_it_is(text: str, tex: str) -> None:
    assert str(escape(text)) == tex


@given(st.text(max_size=80))
def test_escaped_text_is_ascii_with_balanced_braces_and_no_bare_special(text: str) -> None:
    tex = str(escape(text)).replace("~", " " if "\u00a0" in text else "~")

    assert tex.isascii()
    assert not BARE_SPECIAL.search(re.sub(r"\\[~^'\"`=.]\{", "{", tex))
    unescaped = re.sub(r"\\[{}]", "", tex)
    assert unescaped.count("{") == unescaped.count("}")
    assert "\n" not in tex


def test_tex_joined_to_a_plain_string_escapes_the_string() -> None:
    joined = Tex(r"\emph{x}") + " & y"

    assert isinstance(joined, Tex)
    assert str(joined) == r"\emph{x} \& y"
    assert str("a_b" + Tex("!")) == r"a\_b!"


def test_a_name_without_blanks_may_be_broken_after_every_mark_and_every_ten_letters() -> None:
    assert str(breakable("9\N{NO-BREAK SPACE}%")) == r"9~\%\gpurepbreak{}"
    assert str(breakable("ab::cd")) == r"ab:\gpurepbreak{}:\gpurepbreak{}cd"
    assert str(breakable("a--b")) == r"a-\mbox{}\gpurepbreak{}-\gpurepbreak{}b"
    assert str(breakable("DataParallel")) == r"Data\gpurepbreak{}Parallel"
    assert str(breakable("GiB")) == "GiB"
    assert str(breakable("64,000, x")) == r"64,000,\gpurepbreak{} x"
    assert str(breakable("rate=0.5")) == r"rate=\gpurepbreak{}0.5"
    assert str(breakable("k" * 25)).count(r"\gpurepbreak{}") == 2


def test_only_words_too_long_for_a_language_may_be_broken_in_prose() -> None:
    assert r"\gpurepbreak" not in str(escape("reproducibility matters"))
    assert r"\gpurepbreak" in str(escape("a name: " + "k" * 40))


def test_a_string_of_the_pdf_keeps_every_script_and_loses_what_cannot_be_shown() -> None:
    assert (
        pdf_string("50\u2009% é中🙂\x07 a_b\\[c]\n* \u00d7 d")
        == r"50 \% é中🙂 a\_b\textbackslash{}{[}c{]} * × d"
    )
