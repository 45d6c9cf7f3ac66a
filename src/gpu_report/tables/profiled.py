"""Each profiled variant with its trace tables and what their quality gate lets through of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_report.columns import Table
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.traces.grouping import Row
from gpu_report.traces.quality import Gate
from gpu_report.variant import Variant

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables


@dataclass(frozen=True, eq=False)
class Profiled(Gate):
    """One variant's trace tables with their quality gate; a variant that was not profiled has tables without rows."""

    variant: Variant

    @property
    def identity(self) -> Row:
        """The first columns of every table by variant."""
        return {"variant": self.variant.slug, "workload": self.variant.workload, "device": self.variant.device}

    def rows_on_own_device(self, table: Table) -> list[Row]:
        """The table's rows of the device that the variant trained on; on an accelerator the host's run beside them."""
        return [row for row in self.rows(table) if row["device"].partition(":")[0] == self.variant.device_type]


def profiled(traces: "Mapping[str, TraceTables]") -> Iterator[Profiled]:
    """The variants in the order of their names."""
    for slug, tables in sorted(traces.items()):
        yield Profiled(variant=Variant.from_slug(slug), tables=tables)


def first_profiled(tables: Tables) -> list[str]:
    """Of the variants with a row of STEP_SHARES the first of each workload and device, in the order of the study."""
    groups = {str(row["variant"]): (row["workload"], row["device"]) for row in rows_of(tables.step_shares)}
    in_order = dict.fromkeys(str(slug) for frame in tables.experiments.values() for slug in frame["variant"])
    first: dict[tuple[str, str], str] = {}
    for slug in in_order:
        if slug in groups:
            first.setdefault(groups[slug], slug)
    return list(first.values())
