"""Each profiled variant with its trace tables and what their quality gate lets through of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_report.storage.columns import Table
from gpu_report.study.variant import Variant
from gpu_report.traces.grouping import Row
from gpu_report.traces.quality import Gate

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables


@dataclass(frozen=True, eq=False)
class Profiled(Gate):
    """One variant's trace tables with their quality gate; a variant that was not profiled has
    tables without rows.
    """

    variant: Variant

    @property
    def identity(self) -> Row:
        """The first columns of every table by variant."""
        return {
            "variant": self.variant.slug,
            "workload": self.variant.workload,
            "device": self.variant.device,
        }

    def rows_on_own_device(self, table: Table) -> list[Row]:
        """The table's rows of the device that the variant trained on; on a GPU the host's run
        beside them.
        """
        return [
            row
            for row in self.rows(table)
            if row["device"].partition(":")[0] == self.variant.device_type
        ]


def profiled(traces: "Mapping[str, TraceTables]") -> Iterator[Profiled]:
    """The variants in the order of their names."""
    for slug, tables in sorted(traces.items()):
        yield Profiled(variant=Variant.from_slug(slug), tables=tables)
