"""Where the time went inside the profiled steps: the costliest operations and the share of each category.

trace tables, one per variant -> rows on the variant's own device -> TOP_OPERATIONS, CATEGORY_SHARES
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gpu_report.tables.schema import CATEGORY_SHARES, TOP_OPERATIONS
from gpu_report.variant import Variant

if TYPE_CHECKING:
    import pandas as pd

TOP: Final = 10
"""Operations listed per variant: together they usually hold nine tenths of the time, and they fit half a page."""


def tabulate_top_operations(operations: "Mapping[str, pd.DataFrame]") -> "pd.DataFrame":
    """The table TOP_OPERATIONS from each variant's table of operations; a variant without a trace has no rows.

    On an accelerator only the time there counts: time on the host runs beside it and would count twice.
    """
    return TOP_OPERATIONS.from_rows(
        {
            **identity,
            "rank": rank,
            **{name: row[name] for name in ("name", "category", "calls", "total_ms", "self_ms", "self_share")},
        }
        for identity, frame in on_own_device(operations)
        for rank, row in enumerate(_rows(frame, by=("self_ms", "name"))[:TOP], start=1)
    )


def tabulate_category_shares(categories: "Mapping[str, pd.DataFrame]") -> "pd.DataFrame":
    """The table CATEGORY_SHARES from each variant's table of categories, the largest share first."""
    return CATEGORY_SHARES.from_rows(
        {**identity, **{name: row[name] for name in ("category", "calls", "self_ms", "share")}}
        for identity, frame in on_own_device(categories)
        for row in _rows(frame, by=("self_ms", "category"))
    )


def on_own_device(tables: "Mapping[str, pd.DataFrame]") -> "Iterator[tuple[dict[str, str], pd.DataFrame]]":
    """Each variant's name, workload and device with the rows of its table that are of that device."""
    for slug, frame in sorted(tables.items()):
        variant = Variant.from_slug(slug)
        identity = {"variant": slug, "workload": variant.workload, "device": variant.device}
        yield identity, frame[frame["device"] == variant.device_type]


def _rows(frame: "pd.DataFrame", *, by: tuple[str, str]) -> list[dict[str, Any]]:
    """Rows from the largest number down; ties are ordered by name, so that the order of the trace does not matter."""
    number, name = by
    records: Iterable[dict[str, Any]] = ({str(k): v for k, v in row.items()} for row in frame.to_dict("records"))
    return sorted(records, key=lambda row: (-row[number], row[name]))
