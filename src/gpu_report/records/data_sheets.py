"""What vendors' documents give as the peaks of their GPUs, by the name that the driver reports.

data_sheets.yaml -> one DataSheet per name
"""

import math
from collections.abc import Mapping
from functools import cache
from importlib import resources

from gpu_report.storage.json_files import Part, Positive, PositiveCount


class DataSheet(Part):
    """What a vendor's document says of GPUs; data_sheets.yaml explains the fields."""

    names: list[str]
    document: str
    tflops: dict[str, Positive]
    memory_gb_per_s: Positive
    nvlink_gb_per_s: Positive | None = None
    nvlinks: PositiveCount | None = None

    def rate(self, ceiling: str, precision: str) -> float | None:
        """FLOP/s of a matrix product, B/s of a copy inside the device; None of what it does not
        give.
        """
        if ceiling == "device copy":
            return 1e9 * self.memory_gb_per_s
        return 1e12 * self.tflops[precision] if precision in self.tflops else None

    def one_way_gb_per_s(self, nvlinks: int) -> float:
        """One direction of `nvlinks` links, at most all of a GPU; NaN where it does not give it."""
        if self.nvlink_gb_per_s is None or self.nvlinks is None or not nvlinks:
            return math.nan
        return self.nvlink_gb_per_s / 2 * min(nvlinks / self.nvlinks, 1.0)


@cache
def data_sheets() -> Mapping[str, DataSheet]:
    """What records/data_sheets.yaml holds, checked, by the name that the driver reports."""
    import yaml

    text = resources.files("gpu_report.records").joinpath("data_sheets.yaml").read_text("utf-8")
    return {
        name: sheet
        for sheet in map(DataSheet.model_validate, yaml.safe_load(text))
        for name in sheet.names
    }
