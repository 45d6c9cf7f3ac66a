from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures.declaration import LINES, split_into_pages

GROUP_SIZES = st.lists(st.integers(1, LINES + 2), max_size=20)


def headings_of(sizes: list[int]) -> list[str]:
    return [f"group {index}" for index, size in enumerate(sizes) for _ in range(size)]


@given(sizes=GROUP_SIZES, groups=st.none() | st.integers(1, 6))
def test_every_row_is_on_one_page_in_order_and_no_page_is_too_long(
    sizes: list[int], groups: int | None
) -> None:
    headings = headings_of(sizes)

    pages = split_into_pages(headings, groups=groups)

    assert [row for page in pages for row in page] == list(range(len(headings)))
    for page in pages:
        on_page = {headings[row] for row in page}
        if groups is None:
            assert len(page) + len(on_page) <= LINES
        else:
            assert len(on_page) <= groups


@given(sizes=GROUP_SIZES, groups=st.none() | st.integers(1, 6))
def test_a_group_that_fits_a_page_is_not_split(sizes: list[int], groups: int | None) -> None:
    headings = headings_of(sizes)

    pages = split_into_pages(headings, groups=groups)

    for heading in set(headings):
        if groups is not None or headings.count(heading) < LINES:
            assert sum(any(headings[row] == heading for row in page) for page in pages) == 1
