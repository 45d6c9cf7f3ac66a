"""Each profiled variant with its trace tables and what their quality gate lets through of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpu_report.columns import Table
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.traces.trust import trusted
from gpu_report.variant import Variant

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Profiled:
    """One variant's trace tables; a variant that was not profiled has tables without rows."""

    variant: Variant
    tables: "TraceTables"

    @property
    def identity(self) -> Row:
        """The first columns of every table by variant."""
        return {"variant": self.variant.slug, "workload": self.variant.workload, "device": self.variant.device}

    @property
    def quality(self) -> list[Row]:
        """The rows of the table of quality."""
        return self.tables.quality

    def rows(self, table: Table, *columns: str) -> list[Row]:
        """The table's rows, those left out for which the gate spoils one of the columns, by default any column.

        A check of one step spoils of a table by step that step alone, and of any other table all rows.
        """
        rows: list[Row] = getattr(self.tables, table.name)
        if not self._failed:
            return rows
        names = columns or table.column_names
        places = {place for place in set(map(_place, rows)) if self._trusts(table, names, place)}
        return [row for row in rows if _place(row) in places]

    def rows_on_own_device(self, table: Table) -> list[Row]:
        """The table's rows of the device that the variant trained on; on an accelerator the host's run beside them."""
        return [row for row in self.rows(table) if row["device"].partition(":")[0] == self.variant.device_type]

    def trusts(self, table: Table, column: str) -> bool:
        """Whether the gate lets a column through for every row."""
        return trusted(table.name, column, self._failed)

    @cached_property
    def _failed(self) -> list[Row]:
        """Only these spoil anything, and few of many do."""
        return [row for row in self.quality if not row["passed"]]

    def _trusts(self, table: Table, columns: "tuple[str, ...] | list[str]", place: tuple[int | None, str]) -> bool:
        step, device = place
        return all(trusted(table.name, column, self._failed, step=step, on=device) for column in columns)


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


def _place(row: Row) -> tuple[int | None, str]:
    return row.get("step"), row.get("device", "")
