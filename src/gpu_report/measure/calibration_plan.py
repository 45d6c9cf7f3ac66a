"""How much of a device is calibrated and for how long; described without PyTorch."""

from dataclasses import dataclass
from typing import Final

_KIB: Final = 2**10
_MIB: Final = 2**20
_GIB: Final = 2**30


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes and time budgets of one process.

    A budget is what each operation is repeated for once it is warm. Each is repeated `least` times
    at least, however long it takes, and `most` times at most. What memory has no room for is made
    smaller, or left out where it is a transfer. A product has a shape of rows, columns and inner
    length; before those of a precision the first runs for `warm_budget_s`, until the device holds
    the clocks that it can keep.
    """

    product_shapes: tuple[tuple[int, int, int], ...]
    product_budget_s: float
    warm_budget_s: float
    copy_bytes: int
    copy_budget_s: float
    transfer_bytes: tuple[int, ...]
    transfer_budget_s: float
    least: int = 3
    most: int = 1000


@dataclass(frozen=True, kw_only=True)
class LinkPlan:
    """Payloads and time budget of one launch that measures a link.

    Each operation is timed for `budget_s` with each payload once it is warm, at least `least`
    times. A timing takes about `timing_s`, with as many operations behind each other as that holds,
    but at most `most_operations`: each sum doubles the numbers or more, and they have to stay
    finite. Payloads that memory has no room for are left out.
    """

    payload_bytes: tuple[int, ...]
    budget_s: float
    timing_s: float
    least: int = 5
    most_operations: int = 20


_FROM_4_KIB_TO_1_GIB: Final = tuple(4 * _KIB * 4**power for power in range(10))

LINK: Final = LinkPlan(payload_bytes=_FROM_4_KIB_TO_1_GIB, budget_s=0.02, timing_s=1e-3)
"""Meant for about a second over NVLink, beside the start of the processes: ten payloads of four
operations.
"""

_ON_ACCELERATOR: Final = Plan(
    product_shapes=(
        (8192, 8192, 8192),
        (8448, 8192, 8192),
        (4096, 2048, 8192),
        (4096, 4096, 16384),
        (3072, 4224, 8192),
    ),
    product_budget_s=0.1,
    warm_budget_s=0.3,
    copy_bytes=_GIB,
    copy_budget_s=0.3,
    transfer_bytes=_FROM_4_KIB_TO_1_GIB,
    transfer_budget_s=0.04,
)
"""Which shape is fastest depends on the precision and the library: of 16 tried on one H200 each of
these was the first or second in some precision. The copy is beyond any cache.
"""

_ON_CPU: Final = Plan(
    product_shapes=(
        (2048, 2048, 2048),
        (1024, 1024, 1024),
        (2048, 1024, 1024),
        (1024, 1024, 4096),
        (512, 2048, 2048),
    ),
    product_budget_s=0.1,
    warm_budget_s=0.1,
    copy_bytes=256 * _MIB,
    copy_budget_s=0.3,
    transfer_bytes=(),
    transfer_budget_s=0.0,
)
"""Small enough for two cores, where a product takes 0.2 s."""


def plan_for(device: str) -> Plan:
    """The plan of a device by its PyTorch name; the CPU has no host to copy from."""
    return _ON_CPU if device == "cpu" else _ON_ACCELERATOR
