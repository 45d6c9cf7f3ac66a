"""What a figure can show of a variant: a number with its interval, how it is called and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from gpu_report.number_format import Quantity, memory, quantity, ratio, share, throughput
from gpu_report.tables.statistics import is_range

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A summarised figure of the tables; its interval is in `<column>_low` and `<column>_high`."""

    column: str
    label: str
    """With the unit, as it stands on an axis."""
    written: Callable[..., Quantity]
    """The formatter of its values in the table's unit, with `low` and `high`."""
    factor: float = 1.0
    """From the table's unit to the drawn one."""
    from_zero: bool = True
    """Whether zero belongs on a linear axis."""
    reference: float | None = None
    """A value worth a line, in the drawn unit."""
    reference_label: str = ""

    def present(self, frame: "pd.DataFrame") -> bool:
        """Whether any variant has a value."""
        return bool(frame[self.column].notna().any())

    def named(self, **words: str) -> "Metric":
        """The metric with these words filled in where its labels leave room for them."""
        return replace(self, label=self.label.format(**words), reference_label=self.reference_label.format(**words))

    def text_heading(self, frame: "pd.DataFrame", name: str = "mean") -> str:
        """What the texts of `intervals` are: numbers with 95 % intervals, or the range of three processes."""
        ranges = {is_range(count) for count in frame.loc[frame[self.column].notna(), f"{self.column}_count"]}
        return f"{name} ({' or '.join('range' if each else '95 % interval' for each in sorted(ranges)) or 'interval'})"

    def intervals(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Columns `value`, `low` and `high` in the drawn unit; an interval that is not known has no width.

        The column `text` has them in digits, without the unit, which is on the axis.
        """
        import pandas as pd

        columns = [frame[f"{self.column}{end}"].to_numpy(float) for end in ("", "_low", "_high")]
        texts = [
            self.written(*numbers[:1], low=numbers[1], high=numbers[2]).plain(unit=False)
            for numbers in zip(*(column.tolist() for column in columns), strict=True)
        ]
        value, low, high = (column * self.factor for column in columns)
        return pd.DataFrame(
            {"value": value, "low": np.fmin(low, value), "high": np.fmax(high, value), "text": texts},
            index=frame.index,
        )


THROUGHPUT: Final = Metric(column="throughput_per_s", label="Throughput (samples/s)", written=throughput)
MEMORY: Final = Metric(column="memory_peak_mib", label="Peak memory (MiB)", written=partial(memory, unit="MiB"))
QUALITY: Final = Metric(column="quality", label="Held-out quality", written=quantity, from_zero=False)
DATA_WAIT: Final = Metric(column="data_wait_share", label="Time waiting for data (%)", written=share, factor=100)
SPEEDUP: Final = Metric(
    column="speedup",
    label="Speedup over {baseline}",
    written=ratio,
    reference=1,
    reference_label="as fast as {baseline}",
)
ENERGY: Final = Metric(column="energy_per_sample_j", label="Energy (J/sample)", written=quantity)
RATIO: Final = Metric(
    column="ratio",
    label="Ratio of the throughputs",
    written=ratio,
    reference=1,
    reference_label="as fast",
)
