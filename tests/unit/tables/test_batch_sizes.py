"""The table of tried batch sizes: growing sizes, one row for each answer, nothing guessed where
nothing fits.
"""

import math

from gpu_report.study.search import BatchSearch
from gpu_report.tables.batch_sizes import BATCH_SIZES, tabulate_batch_sizes
from tests.searches import make_failed_search, make_search, without_speed

SEARCH = BatchSearch(workload="unet", size="128px", device="cuda")


def test_each_size_has_a_row_and_each_answer_is_marked_once() -> None:
    rows = BATCH_SIZES.checked(tabulate_batch_sizes([make_search(SEARCH)]))

    assert [row["samples"] for row in rows] == [1, 100, 1000, 1010]
    marked = {
        mark: [row["samples"] for row in rows if row[mark]]
        for mark in ("is_largest", "is_fastest", "is_smallest_near_fastest")
    }
    assert marked == {"is_largest": [1000], "is_fastest": [1000], "is_smallest_near_fastest": [100]}
    assert all(row["is_resolved"] for row in rows)


def test_a_search_beside_other_programs_has_no_answers_about_speed() -> None:
    rows = BATCH_SIZES.checked(tabulate_batch_sizes([without_speed(make_search(SEARCH))]))

    assert [row["samples"] for row in rows if row["is_largest"]] == [1000]
    assert not any(row["is_fastest"] or row["is_smallest_near_fastest"] for row in rows)


def test_what_did_not_fit_has_its_reason_and_no_numbers() -> None:
    (row,) = BATCH_SIZES.checked(tabulate_batch_sizes([make_failed_search(SEARCH)]))

    assert (row["status"], row["reason"], row["memory_kind"]) == ("oom", "out of memory", "")
    numbers = (
        "throughput_per_s",
        "throughput_per_s_low",
        "memory_peak_mib",
        "memory_limit_mib",
        "headroom_share",
    )
    assert all(math.isnan(row[number]) for number in numbers)
    assert not any(row[mark] for mark in ("is_largest", "is_resolved", "is_fastest"))
