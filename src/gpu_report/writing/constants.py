"""Numbers of the code that the text tells, as it tells them; `method_numbers` gives them keys."""

from typing import Final

from gpu_report.number_format import Quantity, count, quantity
from gpu_report.tables.statistics import CONFIDENCE as _CONFIDENCE
from gpu_report.tables.statistics import SIGNIFICANCE as _SIGNIFICANCE
from gpu_report.traces.idle import SHORT_NS

CONFIDENCE: Final[Quantity] = count(100 * _CONFIDENCE, "%")
"""Of every interval."""

SIGNIFICANCE: Final[Quantity] = count(100 * _SIGNIFICANCE, "%")
"""Below which an adjusted p-value counts as a difference."""

SHORT_LAUNCH: Final[Quantity] = quantity(SHORT_NS / 1000, "µs", most_decimals=0)
"""What runs for less is called a short kernel."""
