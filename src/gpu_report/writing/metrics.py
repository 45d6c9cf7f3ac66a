"""Every number of a variant that a table in the text can show: its header, its meaning and its format."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from gpu_report import number_format
from gpu_report.number_format import Quantity
from gpu_report.writing.cells import Metric

_MEMORY_SHOWN_IN_GIB_FROM_MIB: Final = 10 * 1024


def _time_unit_of_ms(milliseconds: Sequence[float]) -> str:
    return "s" if milliseconds and min(milliseconds) >= 1000 else "ms"


def _memory_unit(mebibytes: Sequence[float]) -> str:
    return "GiB" if mebibytes and min(mebibytes) >= _MEMORY_SHOWN_IN_GIB_FROM_MIB else "MiB"


def time_in(per_second: float) -> Callable[..., Quantity]:
    """The formatter of times in a unit of which so many are a second."""

    def show(value: float, *, low: float = math.nan, high: float = math.nan, unit: str | None = None) -> Quantity:
        return number_format.duration(value / per_second, low=low / per_second, high=high / per_second, unit=unit)

    return show


def _seconds(values: Sequence[float]) -> str:
    return "s" if not values or max(values) >= 1 else "ms"


def _preparing(seconds: float, **options: Any) -> Quantity:
    """Zero is no time but that there was nothing to compile or to capture."""
    return number_format.duration(seconds or math.nan, **options)


def _steps(number: float) -> Quantity:
    """Whole steps, upwards: what breaks even after 42.3 steps gains from step 43 on."""
    return number_format.count(math.ceil(number) if math.isfinite(number) else number, "steps")


def _whole(unit: str) -> Callable[..., Quantity]:
    """A number that its instrument tells in whole units."""
    return lambda value, **_: number_format.count(value, unit)


def _in_unit(unit: str) -> Callable[..., Quantity]:
    return partial(number_format.quantity, unit=unit)


METRICS: Final[Mapping[str, Metric]] = {
    metric.key: metric
    for metric in (
        Metric(
            key="parameters",
            column="parameters",
            header="parameters",
            meaning="trainable parameters",
            show=number_format.count,
        ),
        Metric(
            key="step_time",
            column="step_time_ms",
            header="step time",
            meaning="time of one training step",
            show=time_in(1e3),
            column_unit=_time_unit_of_ms,
        ),
        Metric(
            key="throughput",
            column="throughput_per_s",
            header="throughput",
            meaning="training samples per second",
            show=number_format.throughput,
        ),
        Metric(
            key="epoch_time",
            column="epoch_time_s",
            header="epoch time",
            meaning="wall time of one pass over the whole training set",
            show=number_format.duration,
            column_unit=_seconds,
        ),
        Metric(
            key="speedup",
            column="speedup",
            header="speedup",
            meaning="throughput over that of the baseline",
            show=number_format.ratio,
        ),
        Metric(
            key="time_reduction",
            column="time_reduction_percent",
            header="time saved",
            meaning="training time saved against the baseline",
            show=number_format.percent,
        ),
        Metric(
            key="first_epoch_ratio",
            column="first_epoch_ratio",
            header="first epoch",
            meaning="wall time of the first epoch over that of a later one",
            show=number_format.ratio,
        ),
        Metric(
            key="memory",
            column="memory_peak_mib",
            header="peak memory",
            meaning="highest memory use of the training process",
            show=number_format.memory,
            column_unit=_memory_unit,
        ),
        Metric(
            key="quality",
            column="quality",
            header="quality",
            meaning="quality on held-out samples after the last epoch",
            show=number_format.quantity,
        ),
        Metric(
            key="time_to_target",
            column="time_to_target_s",
            header="time to target",
            meaning="training time, without evaluation, until the held-out quality reached the target",
            show=number_format.duration,
            column_unit=_seconds,
        ),
        Metric(
            key="test_loss",
            column="test_loss",
            header="held-out loss",
            meaning="loss on held-out samples after the last epoch",
            show=number_format.quantity,
        ),
        Metric(
            key="data_wait",
            column="data_wait_share",
            header="data wait",
            meaning="share of the time in which training waits for data",
            show=number_format.share,
        ),
        Metric(
            key="preparation",
            column="preparation_time_s",
            header="compile and capture",
            meaning="time of compiling and capturing with a filled cache",
            show=_preparing,
            column_unit=_seconds,
        ),
        Metric(
            key="preparation_cold",
            column="preparation_cold_s",
            header="cold-cache compile",
            meaning="time of compiling and capturing with an empty cache",
            show=_preparing,
            column_unit=_seconds,
        ),
        Metric(
            key="break_even",
            column="break_even_steps",
            header="break-even",
            meaning="steps after which the time saved exceeds the cold-cache compile time",
            show=_steps,
        ),
        Metric(
            key="skipped_steps",
            column="skipped_steps",
            header="skipped",
            meaning="steps that the gradient scaler skipped in all processes together",
            show=_steps,
        ),
        Metric(
            key="loss_scale",
            column="loss_scale_last",
            header="loss scale",
            meaning="factor of the gradient scaler after the last step",
            show=number_format.count,
        ),
        Metric(
            key="memory_reserved",
            column="memory_reserved_mib",
            header="reserved",
            meaning="memory that PyTorch took from the driver",
            show=number_format.memory,
            column_unit=_memory_unit,
        ),
        Metric(
            key="workspace",
            column="convolution_workspace_mib",
            header="workspace",
            meaning="largest workspace of a convolution in the profiled steps",
            show=number_format.memory,
            column_unit=_memory_unit,
        ),
        Metric(
            key="memory_fragmented",
            column="memory_fragmented_mib",
            header="fragmented",
            meaning="memory left over in split blocks of PyTorch's allocator",
            show=number_format.memory,
            column_unit=_memory_unit,
        ),
        Metric(
            key="allocator_retries",
            column="allocator_retries",
            header="retries",
            meaning="times that PyTorch's allocator emptied its cache to find memory",
            show=number_format.count,
        ),
        Metric(
            key="utilisation",
            column="utilisation_percent",
            header="GPU utilization (NVML)",
            meaning="share of the time in which the driver saw a kernel run",
            show=number_format.percent,
        ),
        Metric(
            key="power",
            column="power_w",
            header="power",
            meaning="mean power of the accelerator",
            show=_in_unit("W"),
        ),
        Metric(
            key="sm_clock",
            column="sm_clock_mhz",
            header="clock",
            meaning="median clock of the multiprocessors",
            show=_whole("MHz"),
        ),
        Metric(
            key="temperature",
            column="temperature_c",
            header="hottest",
            meaning="highest temperature of the accelerator",
            show=_whole("°C"),
        ),
        Metric(
            key="energy_per_sample",
            column="energy_per_sample_j",
            header="per sample",
            meaning="energy of the accelerator for one training sample",
            show=_in_unit("J"),
        ),
        Metric(
            key="energy_per_epoch",
            column="energy_per_epoch_j",
            header="per epoch",
            meaning="energy of the accelerator for one pass over the training set",
            show=_in_unit("J"),
        ),
        Metric(
            key="profile_overhead",
            column="profile_overhead",
            header="with profiler",
            meaning="step time with the profiler on over the step time without it",
            show=number_format.ratio,
        ),
    )
}
"""Every number a table in the text can show, by the key that templates and numbers.tex use."""
