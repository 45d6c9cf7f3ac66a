"""TeX text that is safe to print, and the escape that makes it so out of any string.

str -> escape -> Tex; whatever is not Tex is escaped when it is put together with Tex, so that none
can be forgotten.
"""

import re
import unicodedata
from itertools import pairwise
from string import ascii_letters, digits
from typing import Any, Final, Self

from markupsafe import Markup

from gpu_report.printing.number_format import UNIT_AFTER_NUMBER

_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "#": r"\#",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    # After a line break in a table, an opening bracket or an asterisk would be read as an argument.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
_SPECIAL_IN_STRINGS: Final = {
    character: written for character, written in _SPECIAL.items() if character not in '<>|"`*'
}
_GREEK: Final = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda nu xi pi rho sigma tau "
    "upsilon varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
_WRITTEN_OUT: Final = {
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "…": r"\dots{}",
    "•": r"\textbullet{}",
    "·": r"\textperiodcentered{}",
    "°": r"\textdegree{}",
    "©": r"\textcopyright{}",
    "®": r"\textregistered{}",
    "™": r"\textsuperscript{TM}",  # the typewriter fonts lack the sign
    "§": r"\S{}",
    "€": r"\texteuro{}",
    "£": r"\pounds{}",
    "²": r"\textsuperscript{2}",
    "³": r"\textsuperscript{3}",
    "×": r"\ensuremath{\times}",
    "÷": r"\ensuremath{\div}",
    "±": r"\ensuremath{\pm}",
    "−": r"\ensuremath{-}",
    "≤": r"\ensuremath{\leq}",
    "≥": r"\ensuremath{\geq}",
    "≈": r"\ensuremath{\approx}",
    "∞": r"\ensuremath{\infty}",
    "→": r"\ensuremath{\rightarrow}",
    "←": r"\ensuremath{\leftarrow}",
    "µ": r"\ensuremath{\mu}",
    "μ": r"\ensuremath{\mu}",
    **{
        letter: rf"\ensuremath{{\{name}}}"
        for letter, name in zip(
            "αβγδεζηθικλνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
            _GREEK.split(),
            strict=True,
        )
    },
}
_CEDILLA: Final = "\u0327"
_WITH_CEDILLA: Final = frozenset("cCsStT")
"""The letters whose cedilla the fonts have; TeX would build others from pieces that nobody can copy
or search.
"""

_ACCENTS: Final = {
    "\u0300": r"\`",
    "\u0301": r"\'",
    "\u0302": r"\^",
    "\u0303": r"\~",
    "\u0304": r"\=",
    "\u0306": r"\u",
    "\u0307": r"\.",
    "\u0308": r"\"",
    "\u030a": r"\r",
    "\u030b": r"\H",
    "\u030c": r"\v",
    _CEDILLA: r"\c",
}
_LIGATURES: Final = frozenset(("--", ",,", "''", "<<", ">>"))
"""What fonts would join to one sign; an empty box keeps them apart, as empty braces do not under
LuaTeX.
"""

_JOINING: Final = frozenset(("-", ",", "'"))
"""What would join so to a sign that a template may have after the text."""

_BREAK_AFTER: Final = frozenset("_:<>(),.;/\\-=+*&|[]{}#%~@$' ")
_LONGEST_UNBROKEN_RUN: Final = 12
_LONGEST_WORD: Final = 24
_SHORTEST_WORD: Final = 3
"""Letters before the last one of a word that a capital after it ends."""
_HEXADECIMAL: Final = frozenset("0123456789ABCDEFabcdef")
_THIN_SPACE: Final = "\u202f"
_UNBREAKABLE: Final = {"\u00a0": "~", "\u2009": r"\,", _THIN_SPACE: r"\,"}
"""Blanks at which no line ends."""
_UNBREAKABLE_BLANK: Final = re.compile(f"[{''.join(_UNBREAKABLE)}]")
_WORDS: Final = re.compile(r"((?:(?![\u00a0\u2009\u202f])\s)+)")


class Tex(Markup):
    """Text that is TeX on purpose; a plain string joined to it is escaped first."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> Self:
        """The value as TeX: itself if it is TeX already, escaped if it is not."""
        return cls(s) if isinstance(s, Markup) else cls(escape(str(s)))


def escape(text: str) -> Tex:
    """TeX that prints the text as it is, in any encoding and under every engine.

    White space and line ends become one blank, that between a number and its unit a thin one. A
    character that the common fonts lack is shown as `U+XXXX`. A word too long to be one of a
    language may be broken.
    """
    text = UNIT_AFTER_NUMBER.sub(_THIN_SPACE, unicodedata.normalize("NFC", text))
    escaped = "".join(map(_escape_part, _WORDS.split(text)))
    return Tex(escaped + (r"\mbox{}" if text[-1:] in _JOINING else ""))


def breakable(text: str) -> Tex:
    """The same, with places where any name may be broken, so that it stays inside a narrow
    column.
    """
    return Tex(_breakable(unicodedata.normalize("NFC", text)))


def pdf_string(text: str) -> Tex:
    """The text for a place that becomes a string of the PDF: title, alternative text. Characters of
    any script stay.
    """
    return Tex(
        "".join(_SPECIAL_IN_STRINGS.get(character, character) for character in _printable(text))
    )


def xml_text(text: str) -> Tex:
    """The text for XML inside of TeX where `&` and `#` are ordinary: all but letters, digits and
    blanks by number.
    """
    plain = frozenset(ascii_letters + digits + " ")
    return Tex(
        "".join(
            character if character in plain else f"&#{ord(character)};"
            for character in _printable(text)
        )
    )


def macro_key(value: object) -> str:
    """The value in characters that the name of a TeX macro can have without surprises, for a key of
    `numbers.tex`.
    """
    return re.sub(r"[^A-Za-z0-9_.+]+", "-", str(value)).strip("-")


def _printable(text: str) -> str:
    shown = "".join(
        character for character in text if character.isprintable() or character.isspace()
    )
    return " ".join(shown.split())


def _escape_part(part: str) -> str:
    if part.isascii() and part.isalnum() and len(part) <= _LONGEST_WORD:
        return part  # most are such words
    if _WORDS.fullmatch(part):
        return " "
    if any(map(_is_too_long, _UNBREAKABLE_BLANK.split(part))):
        return _breakable(part)
    return "".join(
        _escape_character(character) + _apart(character, after)
        for character, after in pairwise(f"{part} ")
    )


def _is_too_long(word: str) -> bool:
    return (
        sum(len(f"U+{ord(each):04X}") if _is_spelt_out(each) else 1 for each in word)
        > _LONGEST_WORD
    )


def _breakable(text: str) -> str:
    pieces: list[str] = []
    run = 0
    for character, after in pairwise(f"{text} "):
        pieces.append(_escape_character(character) + _apart(character, after))
        # As in DataParallel, but not in GiB; after a mark, but not in 1,000 or 0.5.
        ends_word = run >= _SHORTEST_WORD and character.islower() and after.isupper()
        ends = (
            ends_word
            or _is_spelt_out(character)
            or (character in _BREAK_AFTER and not (character in ",." and after.isdigit()))
        )
        run = 0 if ends else run + 1
        if character != " " and (ends or run >= _LONGEST_UNBROKEN_RUN):
            pieces.append(r"\gpurepbreak{}")
            run = 0
    return "".join(pieces)


def _apart(character: str, after: str) -> str:
    """What keeps two characters from being read as one: a thin space between `U+XXXX` and what
    might be its digit.
    """
    if character + after in _LIGATURES:
        return r"\mbox{}"
    return r"\," if after in _HEXADECIMAL and _is_spelt_out(character) else ""


def _is_spelt_out(character: str) -> bool:
    """Whether the character is shown as `U+XXXX`."""
    return _escape_character(character).startswith("U+")


def _escape_character(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character.isascii() and character.isprintable():
        return character
    if character in _WRITTEN_OUT:
        return _WRITTEN_OUT[character]
    if character.isspace():
        return _UNBREAKABLE.get(character, " ")
    return _accented(character) or f"U+{ord(character):04X}"


def _accented(character: str) -> str:
    """A letter with one accent as TeX builds it, or nothing where it is not such a letter."""
    parts = unicodedata.normalize("NFD", character)
    if (
        len(parts) != 2
        or parts[1] not in _ACCENTS
        or not (parts[0].isascii() and parts[0].isalpha())
    ):
        return ""
    if parts[1] == _CEDILLA and parts[0] not in _WITH_CEDILLA:
        return ""
    letter = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0])
    return f"{{{_ACCENTS[parts[1]]}{{{letter}}}}}"
