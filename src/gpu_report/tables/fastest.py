"""Which profiled variants are shown: of each workload the eager baseline and the fastest beside it.

experiments' tables -> the profiled variants of each workload and device -> the baseline, and what
is faster than it
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_report import glossary
from gpu_report.study.options import NO_OPTIONS, is_bound
from gpu_report.tables.bundle import Tables
from gpu_report.tables.marks import INVALIDATING, marks_in
from gpu_report.tables.statistics import NOT_MEASURED, SIGNIFICANCE, Summary, ratio_of_means


def shown_profiles(tables: Tables) -> list[str]:
    """The variants of `eager_and_fastest`, in its order."""
    return [slug for pair in eager_and_fastest(tables) for slug in pair]


def eager_and_fastest(tables: Tables) -> list[list[str]]:
    """Of each workload and device the eager baseline, and what is fastest and significantly faster
    beside it.

    That has its size, batch size and parallelism, and no quality flag that keeps either from every
    conclusion.

    Of the variants with a row of STEP_SHARES, those on GPUs where there are any; bounds are left
    out. The baseline is the first in the order of the study, of custom training loops that of the
    most points; without any eager training the first variant is alone. Workloads with two variants
    come first, those with custom training loops last.
    """
    profiled = set(tables.step_shares["variant"])
    rows = {row["variant"]: row for rows in tables.rows_of_experiments.values() for row in rows}
    found = [row for slug, row in rows.items() if slug in profiled]
    by_device: dict[tuple[str, str], list[glossary.Row]] = {}
    for row in [row for row in found if row["device"] != "cpu"] or found:
        by_device.setdefault((row["workload"], row["device"]), []).append(row)
    return sorted(
        (_eager_and_fastest(tables, each) for each in by_device.values()),
        key=lambda pair: (rows[pair[0]]["begins_anew"], -len(pair)),
    )


def _eager_and_fastest(tables: Tables, rows: Sequence[glossary.Row]) -> list[str]:
    baselines = [row for row in rows if row["optimization"] == NO_OPTIONS]
    if not baselines:
        return [rows[0]["variant"]]
    eager = baselines[0]
    if eager["begins_anew"]:
        eager = max(baselines, key=lambda row: row["batch_size"])
    rivals = [
        row
        for row in rows
        if all(row[axis] == eager[axis] for axis in ("size", "batch_size", "parallelism"))
        and any(row[axis] != eager[axis] for axis in ("precision", "optimization"))
        and not is_bound(row["options"])
        and INVALIDATING.keys().isdisjoint(marks_in(row["marks"]) + marks_in(eager["marks"]))
        and (gain := gain_over(tables, row, eager)).value > 1
        and gain.p < SIGNIFICANCE
    ]
    fastest = max(rivals, key=lambda row: row["throughput_per_s"], default=eager)
    return list(dict.fromkeys((eager["variant"], fastest["variant"])))


def _compared_row(tables: Tables, row: glossary.Row, baseline: glossary.Row) -> glossary.Row | None:
    """The variant's row in the experiment whose baseline is this one, with the speedup over it;
    None without any.
    """
    for rows in tables.rows_of_experiments.values():
        known = {each["variant"]: each for each in rows}
        own, before = (known.get(each["variant"]) for each in (row, baseline))
        if own and before and before["is_baseline"] and own["group"] == before["group"]:
            return own
    return None


def gain_over(tables: Tables, row: glossary.Row, baseline: glossary.Row) -> Summary:
    """The throughput over the baseline's: as an experiment with this baseline compares them, else
    by Welch's t.

    Its p is adjusted for the other comparisons of such an experiment. Of two protocol versions
    nothing is known.
    """
    compared = _compared_row(tables, row, baseline)
    if compared is not None:
        return replace(_summary(compared, "speedup"), p=compared["speedup_p"])
    if row["protocol_version"] != baseline["protocol_version"]:
        return NOT_MEASURED
    return ratio_of_means(*(_summary(each, "throughput_per_s") for each in (row, baseline)))


def _summary(row: glossary.Row, column: str) -> Summary:
    low, high, count = (row[f"{column}_{end}"] for end in ("low", "high", "count"))
    return Summary(value=row[column], low=low, high=high, count=int(count))
