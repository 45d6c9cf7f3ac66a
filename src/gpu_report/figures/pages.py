"""Splits variants over several figures where one would be higher than a page; what is compared stays together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, kw_only=True)
class PageLimits:
    """How much one figure holds; a heading is a line as well."""

    groups: int
    lines: int = 38


def split_into_pages(headings: Sequence[str], limits: PageLimits) -> list[list[int]]:
    """The positions of the rows on each page, given the heading of each row; rows of one heading follow each other.

    A group goes to the next page where it does not fit; only a group longer than a page is split.
    """
    pages: list[list[int]] = [[]]
    groups_here = 0
    for _, members in groupby(range(len(headings)), key=headings.__getitem__):
        for part in _parts(list(members), limits.lines - 1):
            lines_here = len(pages[-1]) + groups_here
            if pages[-1] and (groups_here == limits.groups or lines_here + len(part) + 1 > limits.lines):
                pages.append([])
                groups_here = 0
            pages[-1] += part
            groups_here += 1
    return [page for page in pages if page]


def _parts(members: list[int], most: int) -> list[list[int]]:
    return [members[start : start + most] for start in range(0, len(members), most)]
