"""Where the time went inside the profiled steps: the costliest operations and the share of each category.

trace tables, one set per variant -> rows on the variant's own device -> TOP_OPERATIONS, CATEGORY_SHARES
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpu_report.tables.profiled import profiled
from gpu_report.tables.schema import CATEGORY_SHARES, TOP_OPERATIONS
from gpu_report.traces.schema import CATEGORY_TIMES, OPERATIONS

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.traces.tables import TraceTables

TOP: Final = 10
"""Operations listed per variant: together they usually hold nine tenths of the time, and they fit half a page."""


def tabulate_top_operations(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table TOP_OPERATIONS; a variant without a trace, or with one that the gate spoils, has no rows.

    On an accelerator only the time there counts: time on the host runs beside it and would count twice.
    """
    return TOP_OPERATIONS.from_rows(
        {
            **each.identity,
            "rank": rank,
            **{name: row[name] for name in ("name", "category", "calls", "total_ms", "self_ms", "self_share")},
        }
        for each in profiled(traces)
        for rank, row in enumerate(_ordered(each.rows_on_own_device(OPERATIONS), by="name")[:TOP], start=1)
    )


def tabulate_category_shares(traces: "Mapping[str, TraceTables]") -> "pd.DataFrame":
    """The table CATEGORY_SHARES, the largest share first; rows are missing as in TOP_OPERATIONS."""
    return CATEGORY_SHARES.from_rows(
        {**each.identity, **{name: row[name] for name in ("category", "calls", "self_ms", "share")}}
        for each in profiled(traces)
        for row in _ordered(each.rows_on_own_device(CATEGORY_TIMES), by="category")
    )


def _ordered(rows: Iterable[dict[str, Any]], *, by: str) -> list[dict[str, Any]]:
    """From the longest time down; ties are ordered by name, so that the order of the trace does not matter."""
    return sorted(rows, key=lambda row: (-row["self_ms"], row[by]))
