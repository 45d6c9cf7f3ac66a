from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures.declaration import split_into_pages

GROUP_SIZES = st.lists(st.integers(1, 12), max_size=20)


def headings_of(sizes: list[int]) -> list[str]:
    return [f"group {index}" for index, size in enumerate(sizes) for _ in range(size)]


@given(sizes=GROUP_SIZES, groups=st.integers(1, 6), lines=st.integers(2, 30))
def test_every_row_is_on_one_page_in_order_and_no_page_is_too_long(
    sizes: list[int], groups: int, lines: int
) -> None:
    headings = headings_of(sizes)

    pages = split_into_pages(headings, groups=groups, lines=lines)

    assert [row for page in pages for row in page] == list(range(len(headings)))
    for page in pages:
        on_page = {headings[row] for row in page}
        assert len(on_page) <= groups
        assert len(page) + len(on_page) <= lines


@given(sizes=GROUP_SIZES)
def test_a_group_that_fits_a_page_is_not_split(sizes: list[int]) -> None:
    headings = headings_of(sizes)

    pages = split_into_pages(headings, groups=3, lines=20)

    for heading in set(headings):
        assert sum(any(headings[row] == heading for row in page) for page in pages) == 1
