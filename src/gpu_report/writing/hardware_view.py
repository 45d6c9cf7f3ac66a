"""What one machine's hardware can do and what it takes, for the templates: ceilings, copies, efficiency, energy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from gpu_report.glossary import SHOWN, Row
from gpu_report.number_format import duration
from gpu_report.records import Record, Telemetry
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.writing import device_tables
from gpu_report.writing.device_tables import best_of_each
from gpu_report.writing.table_block import TableBlock


@dataclass(frozen=True, kw_only=True)
class HardwareView:
    """The tables about one machine's devices; each is None where there is nothing to show."""

    machine: str
    tables: Tables
    records: Sequence[Record]
    measured: Sequence[Row]
    """The variants with numbers, in the order of the experiments."""
    csv_path: Callable[[str], str]

    def peaks_table(self) -> TableBlock | None:
        rows = rows_of(self.tables.peaks)
        return self._owned(device_tables.peaks_table(rows, source=self.csv_path("peaks"))) if rows else None

    @cached_property
    def efficiency(self) -> Sequence[Row]:
        """The rows of the table of efficiency."""
        return rows_of(self.tables.efficiency)

    def efficiency_table(self) -> TableBlock | None:
        """Of each workload, device and precision the variant that achieved most."""
        rows = best_of_each(self.efficiency, "achieved_flops_per_s", "workload", "device", "precision")
        source = self.csv_path("efficiency")
        return self._owned(device_tables.efficiency_table(rows, source=source)) if rows else None

    @cached_property
    def watched(self) -> list[Row]:
        """The variants whose accelerator's driver told its power."""
        return [row for row in self.measured if SHOWN["power"].is_in([row])]

    def energy_table(self) -> TableBlock | None:
        """Of each workload, size and precision the watched variant that drew most power."""
        rows = best_of_each(self.watched, SHOWN["power"].column, "workload", "size", "precision")
        source = self.csv_path("variants")
        return self._owned(device_tables.energy_table(rows, source=source)) if rows else None

    @cached_property
    def sampling(self) -> str:
        """How often the driver was asked, and what it cost, in words; empty where it was not."""
        asked = [each.telemetry for record in self.records for each in record.repetitions if each.telemetry]
        if not asked:
            return ""
        cost = duration(median(each.sample_cost_ms for each in asked) / 1000)
        return f"{_periods(asked)}; each query took {cost.plain()}"

    def _owned(self, block: TableBlock) -> TableBlock:
        return block.owned_by(self.machine)


def _periods(asked: Sequence[Telemetry]) -> str:
    least, most = (duration(pick(each.period_s for each in asked)).plain() for pick in (min, max))
    return f"every {least}" if least == most else f"every {least} to {most}"
