"""What is said of a figure as reStructuredText, in which Snakemake's HTML report takes its captions."""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec

_SPECIAL: Final = re.compile(r"[^A-Za-z0-9\s]")


def figure_description(figure: "FigureSpec") -> str:
    """Title, caption and the picture in words, as the PDF gives them."""
    return f"**{escaped(figure.title)}.** {escaped(figure.caption)}\n\n*In words:* {escaped(figure.alt)}\n"


def escaped(text: str) -> str:
    """Plain text of one paragraph, of which no character is read as markup."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
