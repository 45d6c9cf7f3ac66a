"""Tables of a variant's trace, made without a trace."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gpu_report.traces import schema as trace_tables
from gpu_report.traces.phases import PHASE_NAMES
from gpu_report.variant import Variant

if TYPE_CHECKING:
    import pandas as pd

OPERATIONS: Final = {
    "aten::convolution_backward": "convolution",
    "aten::cudnn_convolution": "convolution",
    "aten::addmm": "matrix product",
    "aten::native_batch_norm": "normalisation",
    "aten::relu_": "activation",
    "aten::add_": "elementwise",
    "aten::max_pool2d_with_indices": "pooling",
    "Optimizer.step#Adam.step": "optimizer",
    "aten::copy_": "copy",
    "aten::sum": "reduction",
    "aten::nll_loss2d_forward": "loss",
    "aten::_log_softmax<float, 4>_{$&#}": "other",
}
"""Operation -> category, the costliest first."""


def make_operations(slug: str, operations: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """A variant's table of operations as its trace gives it; the earlier an operation, the more time it took."""
    operations = OPERATIONS if operations is None else operations
    devices = dict.fromkeys(["cpu", Variant.from_slug(slug).device_type])
    total = sum(range(1, len(operations) + 1))
    return trace_tables.OPERATIONS.from_rows(
        {
            "name": name,
            "device": device,
            "category": category,
            "calls": 3 * weight,
            "total_ms": 12.0 * weight,
            "self_ms": 10.0 * weight,
            "self_share": weight / total,
            "p10_us": 3900.0,
            "median_us": 4000.0,
            "p90_us": 4100.0,
        }
        for device in devices
        for weight, (name, category) in zip(range(len(operations), 0, -1), operations.items(), strict=True)
    )


def make_categories(slug: str, operations: Mapping[str, str] | None = None) -> "pd.DataFrame":
    """The sums of make_operations by device and category."""
    groups = make_operations(slug, operations).groupby(["device", "category"], as_index=False, sort=False)
    sums = groups[["calls", "self_ms", "self_share"]].sum().rename(columns={"self_share": "share"})
    return trace_tables.CATEGORY_TIMES.check(sums)


def make_phases(slug: str) -> "pd.DataFrame":
    """A variant's table of phases as its trace gives it: a step that spends most of its time going backward."""
    devices = dict.fromkeys(["cpu", Variant.from_slug(slug).device_type])
    shares = dict(zip(PHASE_NAMES, (0.04, 0.3, 0.52, 0.1, 0.04), strict=True))
    in_convolutions = {"forward": 0.6, "backward": 0.7}
    return trace_tables.PHASES.from_rows(
        {
            "device": device,
            "phase": phase,
            "self_ms": 780.0 * share,
            "share": share,
            "convolution_ms": 780.0 * share * in_convolutions.get(phase, 0.0),
            "cudnn_ms": None if device == "cpu" else 700.0 * share * in_convolutions.get(phase, 0.0),
        }
        for device in devices
        for phase, share in shares.items()
    )
