"""What the traces of one machine say, for the templates: what a step consists of, and what is not reliable of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from gpu_report.glossary import Row
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.tables.profiled import shown_profiles
from gpu_report.writing import trace_tables
from gpu_report.writing.table_block import TableBlock

if TYPE_CHECKING:
    import pandas as pd

_KERNELS_SHOWN: Final = 3
_VARIANTS_WITH_KERNELS: Final = 2
"""The CSV file has all variants and ten kernels of each."""


@dataclass(frozen=True, kw_only=True)
class TraceView:
    """Of the profiled variants those of `shown_profiles`; a table is left out where nothing is to show."""

    machine: str
    tables: Tables
    measured: Sequence[Row]
    """The variants with numbers, in the order of the experiments."""
    csv_path: Callable[[str], str]

    @cached_property
    def shown(self) -> list[Row]:
        """The rows of STEP_SHARES with those of their variants and the sentences of the checks they failed."""
        found = {str(row["variant"]): row for row in rows_of(self.tables.step_shares)}
        measured = {str(row["variant"]): row for row in self.measured}
        return [
            {**measured[slug], **found[slug], trace_tables.DOUBTS: "; ".join(self._sentences(measured[slug]))}
            for slug in shown_profiles(self.tables)
            if slug in measured
        ]

    @property
    def on_accelerators(self) -> list[Row]:
        """The shown variants that trained on one."""
        return [row for row in self.shown if row["device"] != "cpu"]

    @property
    def profiled(self) -> int:
        """How many variants were profiled."""
        return len(self.tables.step_shares)

    @property
    def doubted(self) -> int:
        """How many of them failed a check."""
        return int(self.tables.trace_doubts["variant"].nunique())

    def shares_table(self) -> TableBlock | None:
        return self._owned(trace_tables.shares_table, self.shown, "step_shares")

    def kernels_tables(self) -> list[TableBlock]:
        """The longest kernels of the first accelerator variants, in parts that fit a page."""
        rows = [
            row
            for variant in self.with_kernels[:_VARIANTS_WITH_KERNELS]
            for row in self._rows_of(self.tables.top_kernels, variant)
            if row["rank"] <= _KERNELS_SHOWN
        ]
        return self._pages(partial(trace_tables.kernels_table, spoiled=self._spoiled), rows, "top_kernels")

    @property
    def with_kernels(self) -> list[Row]:
        """The shown accelerator variants whose kernels can be told."""
        told = set(self.tables.top_kernels["variant"])
        return [row for row in self.on_accelerators if row["variant"] in told]

    def memory_tables(self) -> list[TableBlock]:
        """The operations that asked for most memory in the first variants that tell it, on accelerators if any do."""
        return self._longest_of(self.tables.operation_memory, trace_tables.memory_table, "operation_memory")

    def speedups_tables(self) -> list[TableBlock]:
        """The categories that take most time on the CPU, in the first variants that both devices profiled."""
        return self._longest_of(self.tables.category_speedups, trace_tables.speedups_table, "category_speedups")

    def doubts_table(self) -> TableBlock | None:
        """The checks that any variant failed, those not shown included."""
        return self._owned(trace_tables.doubts_table, rows_of(self.tables.trace_doubts), "trace_doubts")

    def _longest_of(self, table: "pd.DataFrame", make: Callable[..., TableBlock], name: str) -> list[TableBlock]:
        """The first rows of the first variants that have some."""
        found = [rows for variant in self.on_accelerators or self.shown if (rows := self._rows_of(table, variant))]
        rows = [row for rows in found[:_VARIANTS_WITH_KERNELS] for row in rows[:_KERNELS_SHOWN]]
        return self._pages(make, rows, name)

    def _sentences(self, variant: Row) -> list[str]:
        return list(dict.fromkeys(str(row["text"]) for row in self._rows_of(self.tables.trace_doubts, variant)))

    @cached_property
    def _spoiled(self) -> Mapping[str, frozenset[str]]:
        """By variant the columns of the trace table of kernels that the gate spoils."""
        spoiled: dict[str, frozenset[str]] = {}
        for row in rows_of(self.tables.trace_doubts):
            columns = {name.partition(".")[2] for name in str(row["spoils"]).split(", ") if name.startswith("kernels.")}
            spoiled[str(row["variant"])] = spoiled.get(str(row["variant"]), frozenset()) | columns
        return spoiled

    def _rows_of(self, table: "pd.DataFrame", variant: Row) -> list[Row]:
        """The table's rows of a variant, with what the variant's own row says besides.

        Where both have a number, the interval beside the variant's is not that of the table's.
        """
        rows = rows_of(table[table["variant"] == variant["variant"]])
        bounds = {f"{column}_{end}" for column in table.columns for end in ("low", "high", "count")}
        return [{**{key: value for key, value in variant.items() if key not in bounds}, **row} for row in rows]

    def _owned(self, make: Callable[..., TableBlock], rows: Sequence[Row], table: str) -> TableBlock | None:
        return make(rows, source=self.csv_path(table)).owned_by(self.machine) if rows else None

    def _pages(self, make: Callable[..., TableBlock], rows: Sequence[Row], table: str) -> list[TableBlock]:
        block = self._owned(make, rows, table)
        return block.pages() if block else []
