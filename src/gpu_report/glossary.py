"""Every axis, device, status and metric once: its name, what it means, how it is written, drawn and
averaged.

Tables, figures, findings, exports and the report read it here. What computes a metric is beside the
table it fills.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_report.printing import number_format
from gpu_report.printing.number_format import Quantity, counted, quantity

if TYPE_CHECKING:
    import pandas as pd

AXES: Final[Mapping[str, str]] = {
    "workload": "workload",
    "size": "model size",
    "device": "device",
    "batch_size": "batch size",
    "workers": "DataLoader workers",
    "accumulation": "parts of a batch",
    "precision": "precision",
    "options": "options",
    "optimization": "optimization",
    "strategy": "strategy",
    "devices": "devices",
    "parallelism": "parallelism",
    "epochs": "epochs",
    "steps_per_epoch": "steps per epoch",
    "seed": "seed",
}
"""Field of a variant -> its name in a sentence and over a column."""

PRECISIONS: Final = ("fp32", "tf32", "fp16", "bf16")
"""In reading order, from the most digits to the fewest."""

STATUS_WORDS: Final = {"oom": "out of memory", "failed": "failed", "skipped": "skipped"}
"""Why a variant has no numbers, by its status."""

TIME_TOLERANCE: Final = 0.03
"""The slowdown that does not matter, unless a comparison sets its own."""
QUALITY_TOLERANCE: Final = 0.02
"""The smallest difference of a held-out metric that matters, of one from 0 to 1; of others as a
share of its value.
"""

_NOUNS: Final = {
    "accumulation": "part",
    "workers": "worker",
    "epochs": "epoch",
    "steps_per_epoch": "step",
}
_FIELD_WORDS: Final = {"batch_size": "batch {}", "seed": "seed {}"}

Scale = Literal["log", "linear", "share", "percent", "amount"]
"""How processes are averaged: on logarithms, or as they are, where values may be 0 or negative or
have a maximum.
"""

Row = Mapping[str, Any]
"""One row of a table, by column name."""

_SHOWN_IN_GIB_FROM_MIB: Final = 10 * 1024


def american(name: str) -> str:
    """Stored words, such as the category `normalisation`, in the spelling of the report."""
    return (
        name.replace("isation", "ization").replace("colour", "color").replace("labelled", "labeled")
    )


def capitalized(text: str) -> str:
    """With a capital first letter; what follows stays as it is."""
    return text[:1].upper() + text[1:]


def device_words(device: str) -> str:
    """`CPU` for `cpu`, `GPU 1` for `cuda:1`, PyTorch's name in capitals for others."""
    return device.replace("cuda", "gpu").replace(":", " ").upper()


def field_words(field: str, value: Any) -> str:
    """A field of a variant in as few words as name it: `batch 16`, `4 workers`, `whole epochs`,
    `bf16`.
    """
    if field == "steps_per_epoch" and (value is None or math.isnan(value)):
        return "whole epochs"
    if field in _NOUNS:
        return counted(value, _NOUNS[field])
    return _FIELD_WORDS.get(field, "{}").format(value)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a table: `column` has it, `<column>_low` and `<column>_high` its interval.

    `<column>_count` is the number of processes it comes from.
    """

    column: str
    header: str
    """In a table of the report."""
    show: Callable[..., Quantity] = quantity
    """The formatter, from the table's unit; takes `low` and `high`, and `unit` where `column_unit`
    fixes one.
    """
    column_unit: Callable[[Sequence[float]], str] = lambda _: ""
    """The one unit of a column of these numbers; empty where `show` has one unit alone."""
    key: str = ""
    """In numbers.tex and templates; empty where they cannot name it."""
    meaning: str = ""
    detail: str = ""
    """What a reader of the CSV file wants to know besides."""
    unit: str = "1"
    """In the table."""
    scale: Scale = "log"
    is_of_process: bool = False
    """Whether each process has one, and a variant their mean; what computes it is in
    tables.processes.
    """
    is_timing: bool = False
    """Whether a busy machine falsifies it; memory, loss and quality stay what they are."""
    label: str = ""
    """On an axis; `{baseline}` is what others are compared with."""
    drawn_unit: str = ""
    reference: float | None = None
    """A value worth a line on the axis, in the drawn unit."""
    reference_label: str = ""

    @property
    def name(self) -> str:
        """Of its numbers among those of the report."""
        return self.key or self.column

    @property
    def description(self) -> str:
        """The whole meaning, as a sentence without its full stop."""
        return capitalized(f"{self.meaning}, {self.detail}" if self.detail else self.meaning)

    @property
    def axis_label(self) -> str:
        """The label with its unit."""
        return f"{self.label} ({self.drawn_unit})" if self.drawn_unit else self.label

    def named(self, **words: str) -> "Metric":
        """The metric with these words filled in where its labels leave room for them."""
        return replace(
            self,
            label=self.label.format(**words),
            reference_label=self.reference_label.format(**words),
        )

    def quantity(self, row: Row, *, unit: str = "") -> Quantity:
        """The number of that row with its interval, in a fixed unit where one is given."""
        bounds = {
            bound: float(row[f"{self.column}_{bound}"])
            for bound in ("low", "high")
            if f"{self.column}_{bound}" in row
        }
        options = {"unit": unit} if unit else {}
        return self.show(float(row[self.column]), **bounds, **options)

    def is_in(self, rows: Sequence[Row]) -> bool:
        """Whether any of the rows has this number."""
        return any(self.column in row and math.isfinite(row[self.column]) for row in rows)

    def unit_of(self, rows: Sequence[Row]) -> str:
        """The unit of a column that holds these rows; empty for a number without one."""
        return self._fixed_unit(rows) or next(
            (self.quantity(row).unit for row in rows if self.quantity(row).is_measured), ""
        )

    def quantities(self, rows: Sequence[Row]) -> list[Quantity]:
        """The number of each row, in the one unit of their column."""
        fixed = self._fixed_unit(rows)
        return [self.quantity(row, unit=fixed) for row in rows]

    def _fixed_unit(self, rows: Sequence[Row]) -> str:
        return self.column_unit(
            [float(row[self.column]) for row in rows if math.isfinite(row[self.column])]
        )

    def intervals(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Columns `value`, `low` and `high` as they are drawn; an interval that is not known has no
        width.

        The column `text` has them in digits, without the unit, which is on the axis.
        """
        import numpy as np
        import pandas as pd

        unit = {"unit": self.drawn_unit} if self.column_unit([]) else {}
        columns = [frame[f"{self.column}{end}"].to_numpy(float) for end in ("", "_low", "_high")]
        texts = [
            self.show(value, low=low, high=high, **unit).plain(unit=False)
            for value, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ]
        value, low, high = (
            100 * column if self.drawn_unit == "%" else column for column in columns
        )
        return pd.DataFrame(
            {
                "value": value,
                "low": np.fmin(low, value),
                "high": np.fmax(high, value),
                "text": texts,
            },
            index=frame.index,
        )


def time_in(per_second: float) -> Callable[..., Quantity]:
    """The formatter of times in a unit that is a second divided by `per_second`."""

    def show(
        value: float, *, low: float = math.nan, high: float = math.nan, unit: str | None = None
    ) -> Quantity:
        return number_format.duration(
            value / per_second, low=low / per_second, high=high / per_second, unit=unit
        )

    return show


def _whole(unit: str = "") -> Callable[..., Quantity]:
    return lambda value, **_: number_format.count(value, unit)


def _compiling(seconds: float, **options: Any) -> Quantity:
    """Zero is no time but that there was nothing to compile or to capture."""
    return number_format.duration(seconds or math.nan, **options)


def _seconds(values: Sequence[float]) -> str:
    return "s" if not values or max(values) >= 1 else "ms"


def time_unit_of_ms(milliseconds: Sequence[float]) -> str:
    """The one unit of a column of these times."""
    return "s" if milliseconds and min(milliseconds) >= 1000 else "ms"


def memory_unit(mebibytes: Sequence[float]) -> str:
    """The one unit of a column of these sizes."""
    return "GiB" if mebibytes and min(mebibytes) >= _SHOWN_IN_GIB_FROM_MIB else "MiB"


_IN_SECONDS: Final[dict[str, Any]] = {
    "unit": "s",
    "show": number_format.duration,
    "column_unit": _seconds,
}
_IN_MIB: Final[dict[str, Any]] = {
    "unit": "MiB",
    "show": number_format.memory,
    "column_unit": memory_unit,
}

METRICS: Final[Mapping[str, Metric]] = {
    metric.column: metric
    for metric in (
        Metric(
            column="step_time_ms",
            key="step_time",
            header="step time",
            meaning="time of one training step",
            detail="median over the timed steps of a process",
            unit="ms",
            show=time_in(1e3),
            column_unit=time_unit_of_ms,
            is_of_process=True,
            is_timing=True,
        ),
        Metric(
            column="throughput_per_s",
            key="throughput",
            header="throughput",
            meaning="training samples per second",
            detail="over the timed epochs",
            unit="1/s",
            show=number_format.throughput,
            is_of_process=True,
            is_timing=True,
            label="Throughput",
            drawn_unit="samples/s",
        ),
        Metric(
            column="tokens_per_s",
            key="tokens",
            header="tokens",
            meaning="training tokens per second",
            detail="over the timed epochs; missing where samples are no sequences of tokens",
            unit="1/s",
            show=partial(quantity, unit="tokens/s"),
            is_of_process=True,
            is_timing=True,
            label="Throughput",
            drawn_unit="tokens/s",
        ),
        Metric(
            column="mfu",
            key="mfu",
            header="MFU",
            meaning="model FLOPs utilization (MFU)",
            detail="the operations that training needs per second over the data sheet's dense peak "
            "in the training's precision (bf16 for FP8 layers), of all its devices; flops_source "
            "says how they were counted; missing for a GPU that is not known, and for CPUs",
            show=number_format.share,
            scale="share",
            is_of_process=True,
            is_timing=True,
            label="MFU",
            drawn_unit="%",
        ),
        Metric(
            column="epoch_time_s",
            key="epoch_time",
            header="epoch time",
            meaning="wall time of one epoch over the whole training set",
            detail="projected where epochs were not that",
            is_of_process=True,
            is_timing=True,
            **_IN_SECONDS,
        ),
        Metric(
            column="first_epoch_ratio",
            key="first_epoch_ratio",
            header="first epoch",
            meaning="wall time of the first epoch over that of the median timed epoch",
            show=number_format.ratio,
            is_of_process=True,
            is_timing=True,
        ),
        Metric(
            column="memory_peak_mib",
            key="memory",
            header="peak memory",
            meaning="highest memory use of the training process",
            detail="of the kind that memory_kind names",
            is_of_process=True,
            label="Peak memory",
            drawn_unit="MiB",
            **_IN_MIB,
        ),
        Metric(
            column="quality",
            key="quality",
            header="quality",
            meaning="quality on held-out samples after the last epoch",
            detail="in the metric that quality_name names",
            scale="share",
            is_of_process=True,
            label="Held-out quality",
        ),
        Metric(
            column="test_loss",
            key="test_loss",
            header="held-out loss",
            meaning="mean loss on held-out samples after the last epoch",
            scale="linear",
            is_of_process=True,
        ),
        Metric(
            column="data_wait_share",
            key="data_wait",
            header="data wait",
            meaning="share of the timed epochs in which training waits for data",
            show=number_format.share,
            scale="share",
            is_of_process=True,
            is_timing=True,
        ),
        Metric(
            column="preparation_time_s",
            key="preparation",
            header="compile and capture",
            meaning="time of compiling and capturing with a filled cache",
            detail="before the first step",
            scale="amount",
            is_of_process=True,
            **{**_IN_SECONDS, "show": _compiling},
        ),
        Metric(
            column="utilisation_percent",
            key="utilisation",
            header="GPU utilization (NVML)",
            meaning="share of the timed epochs in which the driver saw a kernel run",
            unit="%",
            show=number_format.percent,
            scale="percent",
            is_of_process=True,
        ),
        Metric(
            column="power_w",
            key="power",
            header="power",
            meaning="mean power of the GPU",
            detail="over the timed epochs: its energy over their time, or the mean of the "
            "driver's readings where that is not known",
            unit="W",
            show=partial(quantity, unit="W"),
            is_of_process=True,
        ),
        Metric(
            column="sm_clock_mhz",
            key="sm_clock",
            header="clock",
            meaning="median clock of the multiprocessors",
            detail="over the timed epochs",
            unit="MHz",
            show=_whole("MHz"),
            is_of_process=True,
        ),
        Metric(
            column="temperature_c",
            key="temperature",
            header="hottest",
            meaning="highest temperature of the GPU",
            detail="over the timed epochs",
            unit="C",
            show=_whole("°C"),
            scale="linear",
            is_of_process=True,
        ),
        Metric(
            column="energy_per_sample_j",
            key="energy_per_sample",
            header="per sample",
            meaning="energy of the GPU for one training sample",
            detail="over the timed epochs",
            unit="J",
            show=partial(quantity, unit="J"),
            is_of_process=True,
            is_timing=True,
        ),
        Metric(
            column="speedup",
            key="speedup",
            header="speedup",
            meaning="throughput over that of the baseline",
            detail="exactly 1 for the baseline itself",
            show=number_format.ratio,
            is_timing=True,
            label="Speedup over {baseline}",
            reference=1,
            reference_label="as fast as {baseline}",
        ),
        Metric(
            column="fastest_cpu_speedup",
            key="fastest_cpu_speedup",
            header="over fastest CPU",
            meaning="throughput over that of the fastest CPU configuration",
            detail="of those measured with the same model and batch; missing where that is one",
            show=number_format.ratio,
            is_timing=True,
        ),
        Metric(
            column="ratio",
            header="ratio",
            meaning="the latter over the former",
            show=number_format.ratio,
            is_timing=True,
            label="Ratio of the throughputs",
            reference=1,
            reference_label="as fast",
        ),
        Metric(
            column="pass_us",
            header="iteration",
            meaning="time of one iteration over the points",
            unit="us",
            show=time_in(1e6),
            column_unit=lambda _: "µs",
            is_timing=True,
            label="Time of an iteration",
            drawn_unit="µs",
        ),
        Metric(
            column="step_wall_ms",
            header="step",
            meaning="wall time of the timed epochs over their steps",
            unit="ms",
            show=time_in(1e3),
            column_unit=time_unit_of_ms,
            is_timing=True,
        ),
        Metric(
            column="step_bound_ms",
            header="without communication",
            meaning="the same for the twin that sends neither gradients nor buffers",
            unit="ms",
            show=time_in(1e3),
            column_unit=time_unit_of_ms,
            is_timing=True,
        ),
        Metric(
            column="exposed_ms",
            header="exposed",
            meaning="exposed communication in a step: how much longer it takes than without "
            "communication",
            detail=(
                "of gradients and buffers, process by process with the same seed; it includes the "
                "slowdown of compute by collectives, which take streaming multiprocessors from "
                "it, and what an option saves or costs on the host"
            ),
            unit="ms",
            show=partial(quantity, unit="ms"),
            scale="linear",
            is_timing=True,
        ),
        Metric(
            column="exposed_share",
            header="of the step",
            meaning="exposed communication over the time of the step",
            detail="1 less the ratio of both steps, process by process, of which the milliseconds "
            "are the share of the mean step",
            show=number_format.share,
            scale="linear",
            is_timing=True,
        ),
        Metric(
            column="exposed_in_trace_ms",
            header="in the trace",
            meaning="time in a profiled step in which a collective and no other kernel runs",
            detail=(
                "interval union, a mean over ranks, without the slowdown of compute by "
                "collectives; missing on the CPU and without a trace"
            ),
            unit="ms",
            show=partial(quantity, unit="ms"),
            is_timing=True,
        ),
        Metric(
            column="speedup_over_one",
            header="over one device",
            meaning="throughput over that of one plain process with the same batch",
            show=number_format.ratio,
            is_timing=True,
            label="Speedup over one device",
            reference=1,
            reference_label="as fast as one device",
        ),
        Metric(
            column="lost_share",
            header="lost",
            meaning="share of the devices' time that is lost, against each device at the rate of "
            "one plain process",
            detail="which goes through the samples of a device in as many parts, in turn with it; "
            "missing without one",
            show=number_format.share,
            scale="linear",
            is_timing=True,
        ),
        Metric(
            column="memory_saved_share",
            header="memory saved",
            meaning="share by which the peak memory of the device that uses most is below that of "
            "one plain process",
            detail="with the same batch in one part; negative where it is above",
            show=number_format.share,
            scale="linear",
        ),
        Metric(
            column="bandwidth_gb_per_s",
            header="bandwidth",
            meaning="bytes over the time of a copy",
            unit="GB/s",
            show=partial(quantity, unit="GB/s"),
            label="Bandwidth",
            drawn_unit="GB/s",
        ),
        Metric(
            column="bus_bandwidth_gb_per_s",
            header="bus bandwidth",
            meaning="bytes that a device sends over the time of an operation",
            detail="in one direction, by the formulas of nccl-tests",
            unit="GB/s",
            show=partial(quantity, unit="GB/s"),
            label="Bus bandwidth",
            drawn_unit="GB/s",
        ),
        Metric(
            column="share_of_peak",
            header="of the peak",
            meaning="what was reached over the peak",
            show=number_format.share,
            is_timing=True,
        ),
        Metric(
            column="parameters",
            key="parameters",
            header="parameters",
            meaning="trainable parameters",
            show=_whole(),
        ),
        Metric(
            column="time_reduction_percent",
            key="time_reduction",
            header="time saved",
            meaning="training time saved against the baseline",
            detail="negative where slower",
            unit="%",
            show=number_format.percent,
            scale="linear",
        ),
        Metric(
            column="time_to_target_s",
            key="time_to_target",
            header="time to target",
            meaning="training time, without evaluation, until the held-out quality reached the "
            "target",
            detail="missing where a process never did",
            is_timing=True,
            **_IN_SECONDS,
        ),
        Metric(
            column="preparation_cold_s",
            key="preparation_cold",
            header="cold-cache compile",
            meaning="time of compiling and capturing with an empty cache",
            detail="in the first process",
            **{**_IN_SECONDS, "show": _compiling},
        ),
        Metric(
            column="break_even_steps",
            key="break_even",
            header="break-even",
            meaning="steps after which the time saved exceeds the cold-cache compile time",
            detail="missing where nothing is prepared, or the variant is not significantly faster",
            show=_whole("steps"),
        ),
        Metric(
            column="skipped_steps",
            key="skipped_steps",
            header="skipped",
            meaning="steps that the gradient scaler skipped in all processes together",
            detail="missing but with fp16",
            show=_whole("steps"),
        ),
        Metric(
            column="loss_scale_last",
            key="loss_scale",
            header="loss scale",
            meaning="factor of the gradient scaler after the last step",
            detail="median; missing but with fp16",
            show=_whole(),
        ),
        Metric(
            column="memory_reserved_mib",
            key="memory_reserved",
            header="reserved",
            meaning="memory that PyTorch took from the driver",
            detail="at its peak, in the profiled run",
            **_IN_MIB,
        ),
        Metric(
            column="convolution_workspace_mib",
            key="workspace",
            header="workspace",
            meaning="largest workspace of a convolution in the profiled steps",
            detail="missing where no trace has it",
            **_IN_MIB,
        ),
        Metric(
            column="memory_fragmented_mib",
            key="memory_fragmented",
            header="fragmented",
            meaning="memory left over in split blocks of PyTorch's allocator",
            detail="at its peak, in the profiled run",
            **_IN_MIB,
        ),
        Metric(
            column="allocator_retries",
            key="allocator_retries",
            header="retries",
            meaning="times that PyTorch's allocator emptied its cache to find memory",
            show=_whole(),
        ),
        Metric(
            column="energy_per_epoch_j",
            key="energy_per_epoch",
            header="per epoch",
            meaning="energy of the GPU for one pass over the training set",
            unit="J",
            show=partial(quantity, unit="J"),
        ),
        Metric(
            column="profile_overhead",
            key="profile_overhead",
            header="with profiler",
            meaning="step time with the profiler on over the step time without it",
            detail="missing without a profile",
            show=number_format.ratio,
        ),
        Metric(
            column="batch_size",
            header="batch size",
            meaning="batch size at which both are equally fast",
            detail="interpolated in logarithms",
        ),
        Metric(
            column="achieved_flops_per_s",
            header="achieved",
            meaning="floating-point operations per second",
            detail="of each device: flops_per_sample times throughput over the number of devices",
            unit="FLOP/s",
            show=partial(number_format.scaled, unit="FLOP/s"),
            is_timing=True,
        ),
        Metric(
            column="throughput_per_device_per_s",
            header="per device",
            meaning="throughput over the number of devices that share the training",
            unit="1/s",
            show=number_format.throughput,
            is_timing=True,
        ),
        Metric(
            column="base_throughput_per_s",
            header="base",
            meaning="throughput of one plain process with the samples per step that each device "
            "has",
            detail="measured in turn with the repetitions",
            unit="1/s",
            show=number_format.throughput,
            is_timing=True,
        ),
        Metric(
            column="base_step_time_ms",
            header="base",
            meaning="step time of that process",
            unit="ms",
            show=time_in(1e3),
            column_unit=time_unit_of_ms,
            is_timing=True,
        ),
        Metric(
            column="base_speedup",
            header="speedup",
            meaning="throughput of all devices over base_throughput_per_s",
            detail="repetition by repetition",
            show=number_format.ratio,
            is_timing=True,
        ),
        Metric(
            column="weak_efficiency",
            header="weak efficiency",
            meaning="base_speedup over the number of devices",
            detail="missing where the strategy does not divide the batch",
            show=number_format.share,
            is_timing=True,
            label="Weak efficiency",
            drawn_unit="%",
            reference=100,
            reference_label="ideal",
        ),
        Metric(
            column="weak_efficiency_plain",
            header="weak efficiency",
            meaning="the same against plain_variant, a plain process that was measured by itself",
            show=number_format.share,
            is_timing=True,
        ),
        Metric(
            column="strong_speedup",
            header="speedup",
            meaning="throughput of all devices over that of strong_variant, at the same samples "
            "per step",
            show=number_format.ratio,
            is_timing=True,
        ),
        Metric(
            column="strong_efficiency",
            header="strong efficiency",
            meaning="strong_speedup over the number of devices",
            show=number_format.share,
            is_timing=True,
        ),
        Metric(
            column="strong_quality_change",
            header="change",
            meaning="held-out metric less that of strong_variant",
            detail="seed by seed; missing where seeds differ",
        ),
        Metric(
            column="memory_allocated_most_mib",
            header="memory per device",
            meaning="peak memory of tensors by the rank with the most",
            **_IN_MIB,
        ),
        Metric(
            column="training_ms",
            header="training",
            meaning="wall time of one training",
            detail="all its iterations",
            unit="ms",
            show=time_in(1e3),
            column_unit=lambda _: "ms",
            is_timing=True,
        ),
        Metric(
            column="training_time_s",
            header="training time",
            meaning="time of a whole training",
            detail="the first epoch included",
            is_timing=True,
            **_IN_SECONDS,
        ),
        Metric(
            column="time_percent",
            header="time",
            meaning="time of the same samples over that of the baseline",
            unit="%",
            show=number_format.percent,
            is_timing=True,
        ),
        Metric(
            column="memory_percent",
            header="of the memory",
            meaning="peak memory over the memory of the source's GPU",
            unit="%",
            show=number_format.percent,
        ),
        Metric(
            column="category_speedup",
            header="speedup",
            meaning="time on the CPU in one kind of work over that on the GPU",
            detail="of a profiled step",
            show=number_format.ratio,
        ),
        Metric(
            column="device_time_percent",
            header="of the GPU's time",
            meaning="share of the GPU's time in a profiled step",
            unit="%",
            show=number_format.percent,
            scale="percent",
        ),
        Metric(
            column="profiled_time_ms",
            header="time",
            meaning="time of a phase in a profiled step, or mean time of a call of an operation",
            unit="ms",
            show=time_in(1e3),
        ),
        Metric(
            column="quality_change",
            header="change of quality",
            meaning="quality less the baseline's",
            detail="seed by seed; missing where seeds differ",
        ),
        Metric(
            column="time_us",
            header="time",
            meaning="time of one copy",
            detail="the host waiting for it",
            unit="us",
            show=partial(quantity, unit="µs"),
        ),
    )
}
"""By column."""

PER_PROCESS: Final[Mapping[str, Metric]] = {
    name: metric for name, metric in METRICS.items() if metric.is_of_process
}
"""Every figure that is summarized over the processes of a variant."""

SHOWN: Final[Mapping[str, Metric]] = {
    metric.key: metric for metric in METRICS.values() if metric.key
}
"""What templates and numbers.tex name, by key."""


def is_timing(column: str) -> bool:
    """Whether a busy machine falsifies the numbers of that column."""
    return column in METRICS and METRICS[column].is_timing


THROUGHPUT: Final = METRICS["throughput_per_s"]
TOKENS: Final = METRICS["tokens_per_s"]
QUALITY: Final = METRICS["quality"]
SPEEDUP: Final = METRICS["speedup"]
RATIO: Final = METRICS["ratio"]
PASS: Final = METRICS["pass_us"]


_MACHINE_ID: Final = re.compile(r"(?:(?P<gpu>.+)-x(?P<count>\d+)-)?(?P<cpu>.+)-(?P<cores>\d+)c")


def machine_words(machine: str) -> str:
    """A machine's id for readers: `H100 80GB` of `h100-80gb-x1-xeon-16c`, `Xeon, 2 cores` of
    `xeon-2c`.

    A name that is no such id stays what it is.
    """
    found = _MACHINE_ID.fullmatch(machine)
    if not found:
        return machine
    if not found["gpu"]:
        return f"{found['cpu'].replace('-', ' ').title()}, {found['cores']} cores"
    name = found["gpu"].replace("-", " ").upper()
    return name if found["count"] == "1" else f"{found['count']} {name}"
