"""Which profiled variants are shown: of each workload the eager baseline and the fastest beside it.

experiments' tables -> the profiled variants of each workload and device -> the baseline, and what is faster than it
"""

from collections.abc import Sequence

from gpu_report import glossary
from gpu_report.study.options import NO_OPTIONS, is_bound
from gpu_report.tables.bundle import Tables
from gpu_report.tables.marks import INVALIDATING, marks_in
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL, SIGNIFICANCE, Summary, ratio_of_means


def shown_profiles(tables: Tables) -> list[str]:
    """The variants of `eager_and_fastest`, in its order."""
    return [slug for pair in eager_and_fastest(tables) for slug in pair]


def eager_and_fastest(tables: Tables) -> list[list[str]]:
    """Of each workload and device the eager baseline, and what is fastest and significantly faster beside it.

    That has its size, batch size and parallelism, and no quality flag that keeps either from every conclusion.

    Of the variants with a row of STEP_SHARES, those on GPUs where there are any; bounds are left out. The baseline is
    the first in the order of the study, of custom training loops that of the most points; without any eager training
    the first variant is alone. Workloads with two variants come first, those with custom training loops last.
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
        and _is_faster(tables, row, eager)
    ]
    fastest = max(rivals, key=lambda row: row["throughput_per_s"], default=eager)
    return list(dict.fromkeys((eager["variant"], fastest["variant"])))


def compared_row(tables: Tables, row: glossary.Row, baseline: glossary.Row) -> glossary.Row | None:
    """The variant's row in the experiment whose baseline is this one, with the speedup over it; None without any."""
    for rows in tables.rows_of_experiments.values():
        known = {each["variant"]: each for each in rows}
        own, before = (known.get(each["variant"]) for each in (row, baseline))
        if own and before and before["is_baseline"] and own["group"] == before["group"]:
            return own
    return None


def _is_faster(tables: Tables, row: glossary.Row, eager: glossary.Row) -> bool:
    """Significantly: among the comparisons of an experiment with this baseline, else by Welch's t alone."""
    compared = compared_row(tables, row, eager)
    if compared is not None:
        return bool(compared["speedup"] > 1 and compared["speedup_p"] < SIGNIFICANCE)
    gain = ratio_of_means(*(_throughput(each) for each in (row, eager)))
    is_comparable = row["protocol_version"] == eager["protocol_version"] and gain.count >= FEWEST_FOR_INTERVAL
    return is_comparable and gain.low > 1


def _throughput(row: glossary.Row) -> Summary:
    low, high, count = (row[f"throughput_per_s_{end}"] for end in ("low", "high", "count"))
    return Summary(value=row["throughput_per_s"], low=low, high=high, count=int(count))
