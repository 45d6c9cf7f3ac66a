"""The colors of figures and pages, known without what draws."""

from collections.abc import Mapping
from typing import Final

from gpu_report.glossary import PRECISIONS

INK: Final = "#1F1F1F"
BLUE: Final = "#00507D"
VERMILLION: Final = "#A44800"
GREEN: Final = "#00885F"
PURPLE: Final = "#C978A8"
ORANGE: Final = "#E69F00"
SKY: Final = "#8CCBF2"
YELLOW: Final = "#F5EC8A"
PALETTE: Final = (BLUE, ORANGE, GREEN, SKY, VERMILLION, YELLOW, PURPLE, INK)
"""The hues of Okabe and Ito (2008), darkened or lightened until any two differ by at least 7 in CIE
lightness, so that they stay apart in grey; neighbours in this order differ most.
"""

DARK_COLORS: Final = (BLUE, VERMILLION, GREEN, INK)
"""Those on which white text reads better than black."""

QUIET: Final = "#6B6B6B"
GRID: Final = "#DDDDDD"
OTHERS: Final = "#FFFFFF"

PRECISION_COLORS: Final = dict(zip(PRECISIONS, (SKY, PURPLE, GREEN, BLUE), strict=True))

CATEGORY_COLORS: Final[Mapping[str, str]] = {
    "convolution": BLUE,
    "matrix product": ORANGE,
    "recurrent": GREEN,
    "normalisation": SKY,
    "reduction": VERMILLION,
    "optimizer": YELLOW,
    "loss": PURPLE,
    "copy": INK,
    "runtime": "#D2D2D2",
    "dispatch": "#B4B4B4",
}
"""Of the categories of operations that take most time in training, in the order of reading; the
rest share one colour.

Calls into the driver lie between sky and yellow in grey.
"""

PHASE_COLORS: Final[Mapping[str, str]] = {
    "forward": BLUE,
    "loss": PURPLE,
    "backward": ORANGE,
    "optimizer": GREEN,
    "data": SKY,
    "other": OTHERS,
}
