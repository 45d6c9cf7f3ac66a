"""The one formatter of every number that a reader sees: in prose, tables, captions and the
terminal.

number, low, high -> Quantity (texts rounded alike, and a unit) -> plain()

With an interval, a number has as many digits as leave two in the greater distance from the number
to an end of it, and never more than four; without one it has three. Two digits before the point are
never rounded. Where the interval excludes 0, or -100 % of a change, an end that this would round to
it has one digit, and the number two. The interval is written out,
`12.3 (11.9 to 12.8)`, or in narrow columns as `12.3 ± 0.5`, unless it is wide and much longer on
one side. It is never put in parentheses in units of the last digit, which is how the Guide to the
Expression of Uncertainty in Measurement (JCGM 100:2008, 7.2.2) writes a standard uncertainty: ours
is a 95 % interval.
"""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Final

NOT_MEASURED: Final = "not measured"
"""Written where there is no number."""

_UNCERTAINTY_DIGITS: Final = 2
_WHOLE_DIGITS: Final = 2  # before the point, which no uncertainty rounds away
_WIDE: Final = Decimal("0.5")  # part of the number from which on its interval is wide
_LOPSIDED: Final = Decimal("1.5")
"""How often the longer side of an interval holds the shorter one from where on one number for both
misleads.
"""
_LEAST_DIGITS: Final = 2
_MOST_DIGITS: Final = 4
_DIGITS_WITHOUT_INTERVAL: Final = 3
_MOST_DECIMALS_ADDED: Final = 6
_LEAST_EXPONENT: Final = math.floor(math.log10(sys.float_info.min))
"""Below it a power of ten is no normal float: to divide by it would lose digits, or be by 0."""
SMALLEST_GROUPED: Final = 10_000  # four digits read well without a separator
_PREFIXES: Final = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3}
_PER_SECOND: Final = {"s": 1.0, "ms": 1e3, "µs": 1e6}
_BINARY_UNITS: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_WITHOUT_SPACE: Final = ("×",)
_UNITS: Final = (
    *("%", "°C", "samples/s", "FLOP/B", *_PER_SECOND, *(unit for unit, _ in _BINARY_UNITS)),
    *(
        prefix + unit
        for unit in ("FLOP/s", "FLOP", "B/s", "B", "J", "W", "Wh", "Hz")
        for prefix in _PREFIXES
    ),
)
UNIT_AFTER_NUMBER: Final = re.compile(
    rf"(?<=\d) (?=(?:{'|'.join(map(re.escape, _UNITS))})(?![\w/-]))"
)
"""The blank in `12.3 ms` as it is in plain text, where what is typeset has a thin space."""

_NUMBER_IN_TEXT: Final = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?!\.?\w)")


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number as a reader sees it, its unit apart; `low` and `high` are empty without an
    interval.
    """

    value: str
    low: str = ""
    high: str = ""
    unit: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there is a number."""
        return self.value != NOT_MEASURED

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval that shows at the digits given."""
        return bool(self.low) and not self.low == self.value == self.high

    @property
    def either_side(self) -> str:
        """The greater distance to an end of the interval, with the digits of the value; empty where
        there is none.
        """
        if not self.has_interval or "e" in self.value:
            return ""
        value, low, high = (
            Decimal(text.replace(",", "")) for text in (self.value, self.low, self.high)
        )
        lesser, greatest = sorted(each.quantize(value) for each in (high - value, value - low))
        is_wide, is_lopsided = (
            greatest > abs(value) * _WIDE,
            greatest > max(lesser, Decimal(0)) * _LOPSIDED,
        )
        return (
            ""
            if greatest <= 0 or (is_wide and is_lopsided)
            else f"{greatest:{',' if greatest >= SMALLEST_GROUPED else ''}f}"
        )

    @property
    def bare(self) -> str:
        """The number alone, as Python and siunitx read it."""
        return self.value.replace(",", "")

    def plain(self, *, interval: bool = True, unit: bool = True) -> str:
        """For the terminal and plain files: `12.3 ms (11.9 to 12.8)`; without a number, `not
        measured`.
        """
        if not self.is_measured:
            return self.value
        space = "" if self.unit in _WITHOUT_SPACE else " "
        text = _with_minus(self.value) + (space + self.unit if unit and self.unit else "")
        return f"{text} ({self.plain_bounds})" if interval and self.has_interval else text

    @property
    def plain_bounds(self) -> str:
        """The ends of the interval as `plain` has them: `11.9 to 12.8`; empty without one."""
        return f"{_with_minus(self.low)} to {_with_minus(self.high)}" if self.has_interval else ""


def quantity(
    value: float,
    unit: str = "",
    *,
    low: float = math.nan,
    high: float = math.nan,
    most_decimals: int = 12,
    least: float = 0.0,
) -> Quantity:
    """A number in the unit it comes in; NaN and infinity are not measured, bounds that are NaN or
    equal no interval. No rounding reaches 0 or `least` from an interval that excludes it.

    `most_decimals` cuts digits off that nobody would use where no interval asks for them, such as
    hundredths of a per cent.
    """
    if not math.isfinite(value):
        return Quantity(value=NOT_MEASURED)
    if math.isfinite(low) and math.isfinite(high) and low < high:
        exponent = _exponent(value, low, high)
        numbers = [number / 10.0**exponent for number in (value, low, high)]
        excluded = [limit for limit in (0.0, least) if (low - limit) * (high - limit) > 0]
        limits, decimals = [limit / 10.0**exponent for limit in excluded], _decimals(*numbers)
        texts = [
            _written(number, _showing(number, decimals, limits, digits=digits), exponent)
            for number, digits in zip(numbers, (_LEAST_DIGITS, 1, 1), strict=True)
        ]
        bounded = Quantity(value=texts[0], low=texts[1], high=texts[2], unit=unit)
        if bounded.has_interval:
            return bounded
    exponent = _exponent(value)
    scaled_value = value / 10.0**exponent
    return Quantity(
        value=_written(scaled_value, min(most_decimals, _decimals(scaled_value)), exponent),
        unit=unit,
    )


def duration(
    seconds: float, *, low: float = math.nan, high: float = math.nan, unit: str | None = None
) -> Quantity:
    """A time in s, ms or µs, whichever suits the value; `unit` fixes it, for the cells of one
    column.
    """
    suiting = (name for name, per_s in _PER_SECOND.items() if abs(seconds) * per_s >= 1)
    chosen = unit or ("s" if seconds == 0 else next(suiting, "µs"))
    factor = _PER_SECOND[chosen]
    return quantity(seconds * factor, chosen, low=low * factor, high=high * factor)


def in_minutes(seconds: float) -> str:
    """A rough time in words: `2.5 hours`, `4.5 minutes`, or `50 s`."""
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} s"


def memory(
    mib: float, *, low: float = math.nan, high: float = math.nan, unit: str | None = None
) -> Quantity:
    """A size in MiB, or GiB from 1024 MiB on; `unit` fixes it, for the cells of one column."""
    chosen = unit or ("GiB" if abs(mib) >= 1024 else "MiB")
    factor = {"MiB": 1.0, "GiB": 1 / 1024}[chosen]
    return quantity(mib * factor, chosen, low=low * factor, high=high * factor)


def size(byte_count: float) -> Quantity:
    """A number of bytes in the largest binary unit that leaves at least one, whole where it is: `64
    KiB`.
    """
    unit, factor = next((pair for pair in _BINARY_UNITS if byte_count >= pair[1]), ("B", 1))
    return quantity(byte_count / factor, unit, most_decimals=12 if byte_count % factor else 0)


def share(fraction: float, *, low: float = math.nan, high: float = math.nan) -> Quantity:
    """A share of the whole, 0 to 1, in per cent."""
    return percent(100 * fraction, low=100 * low, high=100 * high)


def signed(found: Quantity) -> Quantity:
    """A change, which has a sign in either direction."""
    is_more = found.is_measured and float(found.bare) > 0
    return replace(found, value=f"+{found.value}") if is_more else found


def scaled(
    value: float,
    unit: str,
    *,
    low: float = math.nan,
    high: float = math.nan,
    prefix: str | None = None,
    most_decimals: int = 12,
) -> Quantity:
    """A number in a unit that takes prefixes, such as FLOP/s, B/s, J or W: `53.1 GB/s`, `12.0
    TFLOP/s`, `4.2 mJ`.

    `prefix` fixes it, for the cells of one column; `prefix_of` gives the one that suits a value.
    """
    chosen = prefix_of(value) if prefix is None else prefix
    factor = _PREFIXES[chosen]
    return quantity(
        value / factor,
        chosen + unit,
        low=low / factor,
        high=high / factor,
        most_decimals=most_decimals,
    )


def prefix_of(value: float) -> str:
    """The prefix that leaves at least one digit before the point; none for zero and for what is not
    measured.
    """
    if value == 0 or not math.isfinite(value):
        return ""
    return next((prefix for prefix, factor in _PREFIXES.items() if abs(value) >= factor), "m")


def percent(value: float, *, low: float = math.nan, high: float = math.nan) -> Quantity:
    """A number that is in per cent already, to a tenth at the finest without an interval."""
    return quantity(value, "%", low=low, high=high, most_decimals=1, least=-100.0)


def ratio(value: float, *, low: float = math.nan, high: float = math.nan) -> Quantity:
    """A factor, for instance a speedup, to a hundredth at the finest without an interval:
    `12.3×`.
    """
    return quantity(value, "×", low=low, high=high, most_decimals=2)


def throughput(per_s: float, *, low: float = math.nan, high: float = math.nan) -> Quantity:
    """Training samples per second."""
    return quantity(per_s, "samples/s", low=low, high=high)


def count(value: float, unit: str = "") -> Quantity:
    """A whole number, all digits: `31,037,763`; NaN is not measured."""
    return (
        Quantity(value=_written(value, 0, 0), unit=unit)
        if math.isfinite(value)
        else Quantity(value=NOT_MEASURED)
    )


def exact(value: float, unit: str = "") -> Quantity:
    """A number that somebody else reports, with all the digits that it is given with."""
    separator = "," if abs(value) >= SMALLEST_GROUPED else ""
    return Quantity(value=f"{value:{separator}.15g}", unit=unit)


def counted(number: float, noun: str) -> str:
    """A number with its noun, which takes an s: `1 epoch`, `2 epochs`."""
    return f"{number:.0f} {noun}" if number == 1 else f"{number:.0f} {noun}s"


def field_value(value: object) -> str:
    """A variant's field: a whole number with its digits grouped, `whole` for the steps of an epoch
    not shortened.
    """
    if not isinstance(value, Real):
        return str(value)
    return "whole" if math.isnan(value) else count(float(value)).plain()


def _exponent(value: float, *bounds: float) -> int:
    """The power of ten to write apart, the value's: 0 but for numbers too small or too large to
    write out.
    """
    largest = max(abs(number) for number in (value, *bounds))
    if largest == 0 or 1e-4 <= largest < 1e9:
        return 0
    return max(math.floor(math.log10(abs(value) or largest)), _LEAST_EXPONENT)


def _decimals(value: float, low: float | None = None, high: float | None = None) -> int:
    """Digits after the point; negative where whole tens, hundreds and so on are uncertain, but for
    the first two digits of a value that is surely not 0, as far as the largest number has room.
    """
    largest = max(abs(number) for number in (value, low, high) if number is not None)
    if largest == 0:
        return 0
    if low is None or high is None or high <= low:
        return max(0, _DIGITS_WITHOUT_INTERVAL - 1 - _magnitude(largest, _DIGITS_WITHOUT_INTERVAL))
    uncertain = (
        _UNCERTAINTY_DIGITS - 1 - _magnitude(max(value - low, high - value), _UNCERTAINTY_DIGITS)
    )
    if low * high > 0:
        uncertain = max(uncertain, _LEAST_DIGITS - 1 - _magnitude(value, _LEAST_DIGITS))
    most = _MOST_DIGITS - 1 - _magnitude(largest, _MOST_DIGITS)
    return min(uncertain, most)


def _showing(number: float, decimals: int, limits: Sequence[float], *, digits: int) -> int:
    """These digits after the point, or as many as show that the number is none of the limits, with
    that many digits. What floats leave of a limit stays rounded to it.
    """
    whole = min(0, _WHOLE_DIGITS - 1 - _magnitude(number, _WHOLE_DIGITS))
    needed = [
        digits - 1 - _magnitude(number - limit, digits)
        for limit in limits
        if not round(number - limit, decimals + 1 - digits)
    ]
    return max(
        decimals, whole, *(each for each in needed if each <= decimals + _MOST_DECIMALS_ADDED)
    )


def _magnitude(value: float, digits: int) -> int:
    """The power of ten of the first digit once rounded to `digits` digits: 0.0996 to two digits is
    0.10, so -1.
    """
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _written(value: float, decimals: int, exponent: int) -> str:
    rounded = round(value, decimals) + 0.0  # + 0.0 makes a negative zero positive
    separator = "," if abs(rounded) >= SMALLEST_GROUPED else ""
    text = f"{rounded:{separator}.{max(0, decimals)}f}"
    return f"{text}e{exponent}" if exponent else text


def _with_minus(text: str) -> str:
    """With a minus sign in place of the hyphen that a program reads; a power of ten stays as
    programs write it.
    """
    return f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text


def tex_numbers(text: str) -> str:
    """LaTeX text whose numbers are printed by the document's settings, also as a power of ten."""
    return _NUMBER_IN_TEXT.sub(lambda number: rf"\gpurepnum{{{number[0].replace(',', '')}}}", text)
