"""Names as a trace keeps them: of bounded length, on one line, without what a terminal obeys or hides."""

from typing import Final

from gpu_report.terminal import clean

MOST_CHARACTERS: Final = 4000
"""Longer than the names of CUTLASS's kernels, which are the longest that libraries have; patterns match quickly."""

_BEGIN_SHARE: Final = 0.75


def kept_name(text: str, *, most: int = MOST_CHARACTERS) -> str:
    """The text cleaned, and without its middle where it has more than `most` characters.

    Of the middle only its length is kept. Begin and end are where C++ names differ: function and types, arguments.
    """
    short = _shortened(text, most)
    shown = clean(short, keep="")
    return shown if len(shown) == len(short) else _shortened(shown, most)  # an escaped character takes up to ten


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    begin = int(most * _BEGIN_SHARE)
    left_out = len(text) - most
    return f"{text[:begin]} ... {left_out:,} characters left out ... {text[begin + left_out :]}"
