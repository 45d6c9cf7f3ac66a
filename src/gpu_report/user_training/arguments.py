"""Numbers that a call is given, checked with one line of error each."""

import math
import operator
from typing import Any

from gpu_report.errors import ProfileError


def require_whole(**numbers: Any) -> None:
    """Check what counts something; None is not checked.

    Raises:
        ProfileError: one is no whole number, or less than 1.
    """
    for name, number in numbers.items():
        try:
            is_whole = number is None or (number is not True and operator.index(number) >= 1)
        except TypeError:
            is_whole = False
        if not is_whole:
            raise ProfileError(f"{name}: it is {number!r}; expected a whole number of 1 or more")


def require_positive(**numbers: Any) -> None:
    """Check what is an amount; None is not checked.

    Raises:
        ProfileError: one is no positive number.
    """
    for name, number in numbers.items():
        if number is not None and not (isinstance(number, int | float) and 0 < number < math.inf):
            raise ProfileError(f"{name}: it is {number!r}; expected a positive number")
