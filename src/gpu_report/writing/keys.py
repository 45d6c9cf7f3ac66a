r"""Names of numbers in `numbers.tex`: what a reader types between the braces of `\gpurep{}`."""

import re


def macro_key(value: object) -> str:
    """The value in characters that the name of a TeX macro can hold without surprises."""
    return re.sub(r"[^A-Za-z0-9_.+]+", "-", str(value)).strip("-")
