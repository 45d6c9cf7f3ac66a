"""The first two pages: how fast each model trains on the CPU, on the GPU and at best, with factors
that multiply, and a limit card for each: what its step consists of and what is left to gain.

eager_and_fastest -> a row per model of the table CHAIN -> two rows of the table LIMIT_CARDS
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from gpu_report.glossary import Metric, Row, american
from gpu_report.printing.number_format import count, ratio
from gpu_report.study.options import NO_OPTIONS
from gpu_report.tables.bundle import Tables, eager_and_fastest, gain_over, grouped, rows_of
from gpu_report.tables.traces import IDLE_TIME
from gpu_report.words import in_words, model_words, settings_in_words
from gpu_report.writing.table import Text, metric

CHAIN: Final = (
    Text("model", width=0.16),
    Text("what the fastest has", "needs", width=0.28, longest=200),
    metric("cpu", "CPU", "samples/s"),
    metric("gpu_over_cpu", "GPU over CPU", "ratio"),
    metric("eager", "eager", "samples/s"),
    metric("fastest_over_eager", "fastest over eager", "ratio"),
    metric("fastest", "fastest", "samples/s"),
    metric("fastest_over_cpu", "in all", "ratio"),
    metric("over_fastest_cpu", "over fastest CPU", "ratio"),
)
LIMIT_CARDS: Final = (
    Text("configuration", "is", width=0.27, longest=200),
    Text("largest parts", "parts", width=0.33, longest=200),
    Text("next", "left", width=0.13, longest=200),
    metric("step_time_ms", "step", "ms"),
    metric("busy", "busy", "share"),
    metric("at_most", "no idle", "ratio"),
    metric("of_peak", "peak", "share"),
)
MOST_CATEGORIES: Final = 3
LEAST_SHARE: Final = 0.01
"""Of a step, for a category to be named."""
_TIED: Final = "\u00a0"
"""A space where no line ends."""

NEXT: Final[Mapping[str, str]] = {
    "accelerator busy": "keep the GPU busy",
    "launch-bound": "launch less often",
    "short kernels": "fuse kernels",
    "tensor cores": "tensor cores",
    "data loader": "load data faster",
    "pageable copies": "pinned memory",
    "synchronising calls": "synchronize less often",
    "communication": "overlap communication",
    "peak memory": "save memory",
}
"""What to try, by the advice of traces/advice.py, as a cell has room for it."""


def chains(tables: Tables) -> list[Row]:
    """A row of CHAIN for each model and device, in the order of `eager_and_fastest`.

    Factors are missing where there is nothing to compare with. `over_fastest_cpu` is the fastest
    over the CPU's fastest configuration, which has the `cpu_settings`; `pair` has the rows of the
    eager baseline and of the fastest. Custom training loops have no row.
    """
    variants = {row["variant"]: row for row in rows_of(tables.variants)}
    rows: list[Row] = []
    for names in eager_and_fastest(tables):
        eager, fastest = variants[names[0]], variants[names[-1]]
        if eager["begins_anew"]:
            continue
        on_cpu = [
            row
            for row in variants.values()
            if row["status"] == "ok"
            and row["device"] == "cpu" != eager["device"]
            and all(row[field] == eager[field] for field in ("workload", "size"))
        ]
        cpu = next(
            (
                row
                for row in on_cpu
                if row["optimization"] == NO_OPTIONS
                and all(row[field] == eager[field] for field in ("precision", "batch_size"))
            ),
            None,
        )
        fastest_cpu = max(on_cpu, key=lambda row: float(row["throughput_per_s"]), default=None)
        rows.append(
            {
                "model": model_words(eager),
                "needs": _settings(fastest, eager),
                "pair": (eager, fastest),
                **_rates("cpu", cpu),
                "gpu_over_cpu": _factor(tables, eager, cpu),
                **_rates("eager", eager),
                "fastest_over_eager": _factor(tables, fastest, eager),
                **_rates("fastest", None if fastest is eager else fastest),
                "fastest_over_cpu": math.nan if fastest is eager else _factor(tables, fastest, cpu),
                "over_fastest_cpu": math.nan
                if fastest_cpu is cpu
                else _factor(tables, fastest, fastest_cpu),
                "cpu_settings": ", ".join(settings_in_words(fastest_cpu)) if fastest_cpu else "",
            }
        )
    return rows


def _rates(name: str, row: Row | None) -> dict[str, float]:
    """The throughput of a configuration with its interval, missing without one."""
    ends = ("", "_low", "_high", "_count")
    return {f"{name}{end}": row[f"throughput_per_s{end}"] if row else math.nan for end in ends}


def _factor(tables: Tables, row: Row, over: Row | None) -> float:
    if over is None or over is row:
        return math.nan
    return gain_over(tables, row, over).value


def _settings(row: Row, eager: Row) -> str:
    """What a configuration has that its eager baseline has not."""
    if row is eager:
        return ""
    size = [] if row["batch_size"] == eager["batch_size"] else [row["batch_size"]]
    return ", ".join([*(in_words("batch_size", each) for each in size), *settings_in_words(row)])


def chain_notes(rows: Sequence[Row]) -> list[str]:
    """What the CPU's fastest configurations are, where they are not its eager ones."""
    settings = [f"{row['model']} {row['cpu_settings']}" for row in rows if row["cpu_settings"]]
    return [f"The CPU's fastest configuration: {'; '.join(settings)}."] if settings else []


def in_one_line(row: Row) -> str:
    """A row of CHAIN as text: 'LSTM: CPU 463 samples/s, 8.00× = eager 3700 samples/s, ...'."""
    found = {column.column: column.quantity(row) for column in CHAIN if isinstance(column, Metric)}
    texts = {name: number.plain() if number.is_measured else "" for name, number in found.items()}
    links = [f"CPU {texts['cpu']}"] if texts["cpu"] else []
    links.append(" ".join(filter(None, ("eager", texts["eager"], texts["gpu_over_cpu"]))))
    if texts["fastest"]:
        links.append(f"fastest {texts['fastest']} {texts['fastest_over_eager']}")
    return f"{row['model']}: {', '.join(links)}"


def limit_cards(tables: Tables) -> list[Row]:
    """Two rows of LIMIT_CARDS for each model that some configuration trains faster than its eager
    baseline, where a trace shows a step of either; `model` names it.
    """
    categories = grouped(rows_of(tables.step_categories), lambda row: row["variant"])
    advice = grouped(rows_of(tables.trace_advice), lambda row: row["variant"])
    of_peak = {row["variant"]: row["share_of_peak"] for row in rows_of(tables.efficiency)}
    cards: list[Row] = []
    for chain in chains(tables):
        eager, fastest = chain["pair"]
        if fastest is eager or not {eager["variant"], fastest["variant"]} & categories.keys():
            continue
        for row in (eager, fastest):
            parts = categories.get(row["variant"], [])
            busy = sum(part["share"] for part in parts if part["category"] != IDLE_TIME)
            settings = _settings(row, eager)
            cards.append(
                {
                    "variant": row["variant"],
                    "model": chain["model"],
                    "is": f"fastest: {settings}" if settings else f"eager, {row['precision']}",
                    "parts": _largest(parts),
                    "left": _next(advice.get(row["variant"], [])) if parts else "",
                    "step_time_ms": row["step_time_ms"],
                    "busy": busy or math.nan,
                    "at_most": 1 / busy if busy else math.nan,
                    "of_peak": of_peak.get(row["variant"], math.nan),
                }
            )
    return cards


def _largest(parts: Sequence[Row]) -> str:
    """The categories that take most of a step."""
    work = [part for part in parts if part["category"] != IDLE_TIME]
    return ", ".join(
        f"{american(part['category'])} {count(100 * part['share']).plain()}{_TIED}%"
        for part in work[:MOST_CATEGORIES]
        if part["share"] >= LEAST_SHARE
    )


def _next(advice: Sequence[Row]) -> str:
    """What to try by the most severe advice of the trace."""
    return NEXT.get(advice[0]["rule"], str(advice[0]["rule"])) if advice else "faster kernels"


def gain(row: Row) -> str:
    """The measured gain of a row of advice, with its interval."""
    return ratio(row["gain"], low=row["gain_low"], high=row["gain_high"]).plain()
