"""Each profiled variant with its trace tables and what their quality gate lets through of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_report import glossary
from gpu_report.storage.columns import Table
from gpu_report.study.options import NO_OPTIONS, is_bound
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import Tables
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.traces.grouping import Row
from gpu_report.traces.quality import Gate

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
        """The table's rows of the device that the variant trained on; on a GPU the host's run beside them."""
        return [row for row in self.rows(table) if row["device"].partition(":")[0] == self.variant.device_type]


def profiled(traces: "Mapping[str, TraceTables]") -> Iterator[Profiled]:
    """The variants in the order of their names."""
    for slug, tables in sorted(traces.items()):
        yield Profiled(variant=Variant.from_slug(slug), tables=tables)


def shown_profiles(tables: Tables) -> list[str]:
    """The variants of `eager_and_fastest`, in its order."""
    return [slug for pair in eager_and_fastest(tables) for slug in pair]


def eager_and_fastest(tables: Tables) -> list[list[str]]:
    """Of each workload and device the eager baseline, and the fastest of its size and batch size, if it is faster.

    Faster means that the 95 % intervals of the throughputs do not overlap; no bound is a training.
    Of the variants with a row of STEP_SHARES, those on GPUs where there are any. The baseline is the first in
    the order of the study, of custom training loops that of the most points. Workloads with two variants come first,
    those with custom training loops last.
    """
    profiled = set(tables.step_shares["variant"])
    rows = {row["variant"]: row for rows in tables.rows_of_experiments.values() for row in rows}
    found = [row for slug, row in rows.items() if slug in profiled]
    by_device: dict[tuple[str, str], list[glossary.Row]] = {}
    for row in [row for row in found if row["device"] != "cpu"] or found:
        by_device.setdefault((row["workload"], row["device"]), []).append(row)
    return sorted(
        (_eager_and_fastest(each) for each in by_device.values()),
        key=lambda pair: (rows[pair[0]]["begins_anew"], -len(pair)),
    )


def _eager_and_fastest(rows: Sequence[glossary.Row]) -> list[str]:
    eager, *others = [row for row in rows if row["options"] == NO_OPTIONS] or rows
    if eager["begins_anew"]:
        eager = max((eager, *others), key=lambda row: row["batch_size"])
    alike = [row for row in rows if all(row[axis] == eager[axis] for axis in ("size", "batch_size", "parallelism"))]
    rivals = [
        row
        for row in alike
        if row["throughput_per_s_low"] > eager["throughput_per_s_high"]
        and row["throughput_per_s_count"] >= FEWEST_FOR_INTERVAL
        and not is_bound(row["options"])
        and any(row[axis] != eager[axis] for axis in ("precision", "options", "workers"))
    ]
    fastest = max(rivals, key=lambda row: row["throughput_per_s"], default=eager)
    return list(dict.fromkeys((eager["variant"], fastest["variant"])))
