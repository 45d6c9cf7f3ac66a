"""Which rows of a machine's tables the report's tables show, and what they say in words."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Final

from gpu_report.findings.estimate import listed
from gpu_report.findings.phrases import execution_in_words
from gpu_report.glossary import METRICS, Metric, Row, device_words
from gpu_report.printing.number_format import Quantity, exact, quantity, scaled
from gpu_report.study.options import EAGER, NO_OPTIONS
from gpu_report.study.strategies import SINGLE, STRATEGIES
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.tables.profiled import shown_profiles
from gpu_report.traces.quality import NOT_RELIABLE
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.words import model_words, on_device, titled

if TYPE_CHECKING:
    import pandas as pd

_UNIT: Final = re.compile(r"_(?:ms|us|share|per_s)$")
"""What the name of a column ends with, which a sentence leaves out."""
_VARIANTS_WITH_LONGEST: Final = 2
"""Whose longest operations, kernels and so on are shown; the CSV files have all."""
_HOST_COLUMNS: Final = ("wall_ms", "loader_share")
_PRICED: Final = (("electricity", "kwh", "kWh"), ("device time", "device_hour", "hour"))
"""What a cost may count, and the ends of the price's name and of its words."""


def first_of_each(rows: Iterable[Row], *columns: str) -> list[Row]:
    """The first row with each combination of values in these columns, in order."""
    first: dict[tuple[object, ...], Row] = {}
    for row in rows:
        first.setdefault(tuple(row[column] for column in columns), row)
    return list(first.values())


def alike(rows: Iterable[Row], row: Row, *columns: str) -> list[Row]:
    """The rows that have the same as that one in these columns."""
    return [each for each in rows if all(each[column] == row[column] for column in columns)]


def differences_in_all(rows: Sequence[Row]) -> list[str]:
    """What differs between two machines besides them, where it is the same in all of these rows of COMPARISON."""
    found = {str(row["differences"]) for row in rows} - {""}
    return [f"Also different in all rows: {found.pop()}."] if len(found) == 1 else []


def on_accelerators(rows: Iterable[Row]) -> list[Row]:
    """The rows of trainings on one."""
    return [row for row in rows if row["device"] != "cpu"]


def best_of_each(rows: Iterable[Row], of: str, *columns: str) -> list[Row]:
    """The row with the most in the column `of`, of those with each combination of values in the others, in order."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        if key not in best or row[of] > best[key][of]:
            best[key] = row
    return list(best.values())


def ceilings(tables: Tables) -> list[Row]:
    """What each device reaches at most, beside what the vendor's data sheet gives: each in its own unit."""
    return [
        {
            **row,
            "reached": Metric(column="value", header="", show=_scaled_in(row["unit"])).quantity(row).plain(),
            "data sheet": scaled(row["data_sheet"], row["unit"]).plain() if math.isfinite(row["data_sheet"]) else "",
        }
        for row in rows_of(tables.peaks)
    ]


def _scaled_in(unit: str) -> Callable[..., Quantity]:
    return lambda value, **bounds: scaled(value, unit, **bounds)


def data_sheet_notes(rows: Sequence[Row]) -> list[str]:
    """Where the data sheets of these devices are."""
    sources = {str(row["data_sheet_source"]): device_words(row["device"]) for row in rows if row["data_sheet_source"]}
    return [f"Data sheet of {device}: {source}." for source, device in sources.items()]


def cost_of_epochs(rows: Sequence[Row]) -> Metric:
    """What a thousand epochs cost; a single one often costs less than a cent."""
    currency = next((str(row["currency"]) for row in rows if row["currency"]), "")
    show: Callable[..., Quantity] = lambda value, **_: quantity(1000 * value, currency)  # noqa: E731
    return Metric(column="cost_per_epoch", header="1000 epochs cost", show=show)


def cost_note(rows: Sequence[Row]) -> str:
    """What the cost of these variants counts at which price, and for each price that is missing where it would be."""
    counted, missing = [], []
    for what, key, each in _PRICED:
        price = float(rows[0][f"price_per_{key}"])
        if math.isfinite(price):
            counted.append(f"{what} at {exact(price, str(rows[0]['currency'])).plain()} per {each}")
        else:
            missing.append(f"The price of {what} is not configured: prices.per_{key} in the study's configuration.")
    return " ".join([*([f"Cost: {' and '.join(counted)}."] if counted else []), *missing])


def differences_between_devices(machine: MachineResults) -> list[Row]:
    """How far CPU and accelerator are apart after the last epoch: a row for each pair of variants."""
    titles = {row["workload"]: titled(row) for row in machine.measured}
    pairs: dict[tuple[object, ...], dict[str, Any]] = {}
    rows = rows_of(machine.tables.consistency)
    nothing = {f"difference_{row['metric']}": math.nan for row in rows}
    for row in rows:
        pair = tuple(row[axis] for axis in ("workload", "size", "batch_size", "device"))
        known = pairs.setdefault(pair, {**nothing, **row, "title": titles[row["workload"]]})
        if row["epoch"] > known["epoch"]:
            known.update({**nothing, "epoch": row["epoch"]})
        if row["epoch"] == known["epoch"]:
            known[f"difference_{row['metric']}"] = float(row["difference_percent"])
    return list(pairs.values())


def results_of_sources(sources: "pd.DataFrame") -> list[Row]:
    """The sources' results beside ours: those of each requirement of which any was measured here."""
    reported = [row for row in rows_of(sources) if math.isfinite(row["reported"])]
    answered = {row["row"] for row in reported if math.isfinite(row["ours"])}
    return [
        {
            **row,
            "theirs in words": exact(float(row["reported"]), _UNITS.get(row["unit"], row["unit"])).plain(),
            "ours in words": METRICS[row["metric"]].show(float(row["ours"]), **_bounds(row, "ours")).plain(),
            "heading": f"{row['source']} (hardware: {row['hardware']})",
        }
        for row in reported
        if row["row"] in answered
    ]


_UNITS: Final[Mapping[str, str]] = {"1": "", "1/s": "samples/s"}


def _bounds(row: Row, column: str) -> dict[str, float]:
    return {end: float(row[f"{column}_{end}"]) for end in ("low", "high") if math.isfinite(row[f"{column}_{end}"])}


_METHODS: Final = {"ddp": "DDP", "dp": "DataParallel (discouraged)"}
"""Strategies whose title is too long for a column, or says too little."""
_OF_ONE: Final = {
    "throughput_per_device_per_s": "throughput_per_s",
    "memory_allocated_most_mib": "memory_peak_mib",
}
"""What has another name where one plain process trained."""


def weak_scaling(machine: MachineResults, rows: Iterable[Row]) -> list[Row]:
    """The rows of an experiment at equal samples per device, each below the plain process with as many.

    Trainings that failed are among them. `heading` has what the rows of one comparison share.
    """
    found = _shared(machine)
    plain = {row["plain_variant"] for row in found.values()}
    frame = machine.tables.scaling_efficiency
    nothing: dict[str, Any] = {str(name): math.nan for name in frame if frame[name].dtype == "float64"}
    alike: dict[str, list[Row]] = {}
    for row in rows:
        of_one = {
            f"{name}{end}": row[f"{of}{end}"]
            for name, of in _OF_ONE.items()
            for end in ("", "_low", "_high", "_count")
            if row["strategy"] == SINGLE
        }
        own = {"batch_per_device": row["batch_size"] // row["devices"], **found.get(row["variant"], {})}
        if own.get("is_weak", row["strategy"] != SINGLE) or row["variant"] in plain:
            options = EAGER if row["optimization"] == NO_OPTIONS else row["optimization"]
            samples = f"{own['batch_per_device']} samples per step on each device"
            heading = f"{model_words(row)}, {row['precision']}, {options}, {samples}"
            shown = {**nothing, **own, **row, **of_one, "method": _method(row), "heading": heading}
            alike.setdefault(heading, []).append(shown)
    return [row for same in alike.values() for row in same]


def strong_scaling(machine: MachineResults, rows: Iterable[Row]) -> list[Row]:
    """The rows of an experiment at the same samples per step as a plain process, with what that reached."""
    found, measured = _shared(machine), {row["variant"]: row for row in machine.measured}
    return [
        {
            **own,
            **row,
            "method": _method(row),
            "model": model_words(row),
            "configuration": execution_in_words(row),
            "alone_per_s": measured[own["strong_variant"]]["throughput_per_s"],
            "alone_quality": measured[own["strong_variant"]]["quality"],
        }
        for row in rows
        if (own := found.get(row["variant"])) is not None and own["is_strong"]
    ]


def _shared(machine: MachineResults) -> dict[str, Row]:
    return {row["variant"]: row for row in rows_of(machine.tables.scaling_efficiency)}


def _method(row: Row) -> str:
    return _METHODS.get(str(row["strategy"]), STRATEGIES[str(row["strategy"])].title)


def threads_of(rows: Iterable[Row]) -> str:
    """Threads of each rank, and of the base measured in turn with it."""
    found = sorted({int(row["threads"]) for row in rows if not math.isnan(row["threads"])})
    return listed([str(number) for number in found]) if found else "not measured"


def quality_names(rows: Iterable[Row]) -> str:
    """The held-out metrics of these rows."""
    return listed(list(dict.fromkeys(str(row["quality_name"]) for row in rows)) or ["quality"])


def what_to_use(machine: MachineResults, rows: Sequence[Row]) -> list[Row]:
    """What to `use` on several GPUs in which `situation`, and what was `measured` of the models that it suits."""
    on_gpus = [row for row in on_accelerators(rows) if row["status"] == "ok" and row["devices"] > 1]
    alone = {row["variant"]: row for row in machine.measured}
    strong = best_of_each(strong_scaling(machine, on_gpus), "strong_speedup", "model", "configuration")
    models: dict[str, list[Row]] = {}
    for row in weak_scaling(machine, on_gpus):
        if row["plain_variant"] and math.isfinite(row["base_throughput_per_s"]):
            models.setdefault(model_words(row), []).append({**row, "plain": alone[row["plain_variant"]]})
    advice = [
        *(("most samples/s", *_fastest(own)) for own in models.values()),
        *(("least memory per GPU", *_smallest(own)) for own in models.values()),
        *(("fixed batch", *_same_batch(row)) for row in strong),
    ]
    measured: dict[tuple[str, str], list[str]] = {}
    for situation, use, words in advice:
        measured.setdefault((situation, use), []).append(words)
    return [
        {"situation": situation, "use": use, "measured": "; ".join(words)}
        for (situation, use), words in measured.items()
    ]


def _fastest(rows: Sequence[Row]) -> tuple[str, str]:
    """What trains fastest on several devices, if that is faster than the fastest plain process."""
    best, alone = (max(rows, key=lambda row: float(row[f"{of}throughput_per_s"])) for of in ("", "base_"))
    times = METRICS["speedup"].show(best["throughput_per_s"] / alone["base_throughput_per_s"]).plain()
    pays = best["throughput_per_s_low"] > alone["base_throughput_per_s_high"]
    return _on_devices(best) if pays else "one GPU", f"{model_words(best)} {times} ({execution_in_words(best)})"


def _smallest(rows: Sequence[Row]) -> tuple[str, str]:
    """What saves the greatest part of the memory of a plain process with the samples of one device, if anything."""
    best = min(rows, key=lambda row: float(row["memory_peak_mib"] / row["plain"]["memory_peak_mib"]))
    part = METRICS["ratio"].show(best["memory_peak_mib"] / best["plain"]["memory_peak_mib"]).plain()
    saves = best["memory_peak_mib_high"] < best["plain"]["memory_peak_mib_low"]
    return _on_devices(
        best
    ) if saves else "nothing saves any", f"{model_words(best)} {part} ({execution_in_words(best)})"


def _same_batch(row: Row) -> tuple[str, str]:
    times = METRICS["strong_speedup"].show(row["strong_speedup"]).plain()
    use = _on_devices(row) if row["strong_speedup_low"] > 1 else "one GPU"
    return use, f"{row['model']} {times} ({row['configuration']})"


def _on_devices(row: Row) -> str:
    return f"{_method(row)} on {row['devices']}"


def profiled_steps(machine: MachineResults) -> list[Row]:
    """The rows of STEP_SHARES of the variants that the report shows, with those of the variants.

    `doubts` has the sentences of the checks that the trace failed, in one text; it is empty where none failed.
    """
    found = {str(row["variant"]): row for row in rows_of(machine.tables.step_shares)}
    measured = {str(row["variant"]): row for row in machine.in_order}
    failed = rows_of(machine.tables.trace_doubts)
    return [
        {
            **measured[slug],
            **found[slug],
            "doubts": "; ".join(dict.fromkeys(str(row["text"]) for row in failed if row["variant"] == slug)),
            "configuration": _configuration(measured[slug]),
        }
        for slug in shown_profiles(machine.tables)
        if slug in measured
    ]


def _configuration(row: Row) -> str:
    """Device, precision, whether DataLoader workers load, and what is switched on."""
    workers = ["DataLoader workers"] if row["workers"] else []
    options = [] if row["options"] == NO_OPTIONS else [str(row["options"])]
    return ", ".join([device_words(row["device"]), str(row["precision"]), *workers, *options])


def doubts_of(row: Row) -> list[str]:
    """The doubts about a profiled step, as one flag."""
    return [row["doubts"]] if row["doubts"] else []


def not_reliable(row: Row, metric: Metric) -> str:
    """What is in place of a number of a profiled step that failed a check; the CPU has none of an accelerator."""
    has_one = row["device"] != "cpu" or metric.column in _HOST_COLUMNS
    return NOT_RELIABLE if row["doubts"] and has_one and math.isnan(row[metric.column]) else ""


def longest(steps: Sequence[Row], frame: "pd.DataFrame", most: int = 3) -> list[Row]:
    """The first rows of a trace table about each of the first profiled steps that have some, with the variant's own."""
    found = [rows for step in steps if (rows := _with_variant(frame, step)[:most])]
    return [row for rows in found[:_VARIANTS_WITH_LONGEST] for row in rows]


def _with_variant(frame: "pd.DataFrame", variant: Row) -> list[Row]:
    """The table's rows of a variant, with what the variant's own row says besides.

    Where both have a number, the interval beside the variant's is not that of the table's.
    """
    bounds = {f"{column}_{end}" for column in frame.columns for end in ("low", "high", "count")}
    known = {key: value for key, value in variant.items() if key not in bounds}
    return [{**known, **row} for row in rows_of(frame[frame["variant"] == variant["variant"]])]


def variant_heading(row: Row) -> str:
    """The model, the device and the variant, above what is listed of it."""
    return f"{model_words(row)} {on_device(row['device'])}, {row['variant']}"


def longest_kernels(steps: Sequence[Row], tables: Tables) -> list[Row]:
    """The kernels of the first shown variants, without what their traces do not say reliably."""
    unreliable = {
        (row["variant"], name.partition(".")[2])
        for row in rows_of(tables.trace_doubts)
        for name in str(row["spoils"]).split(", ")
        if name.startswith("kernels.")
    }
    rows: list[Row] = []
    for row in longest(steps, tables.top_kernels):
        lost = {column: NOT_RELIABLE for column in ("category", "operation") if (row["variant"], column) in unreliable}
        known = {**row, **lost}
        place = "" if "operation" in lost else str(row["source"] or row["module"])
        rows.append({**known, "launched by": ", ".join(filter(None, (str(known["operation"]), place)))})
    return rows


def kernel_name(row: Row) -> str:
    """Without what it returns and the types of its arguments."""
    name = str(row["name"])
    if not name.startswith("void ") or not name.endswith(")"):
        return name
    depths = accumulate((char == ")") - (char == "(") for char in reversed(name))
    arguments = next((at for at, depth in enumerate(depths, start=1) if depth == 0), 0)
    return name[len("void ") : -arguments] if arguments else name


def tensor_core_word(row: Row) -> str:
    """Whether a kernel uses tensor cores."""
    return str(row["tensor_cores"]).replace("unknown", "?")


def failed_checks(tables: Tables) -> list[Row]:
    """The checks that traces failed, with how many did and what is left out of their tables for it."""
    rows = sorted(rows_of(tables.trace_doubts), key=lambda row: str(row["check"]))
    checks: list[Row] = []
    for check, alike in groupby(rows, key=lambda row: str(row["check"])):
        of_check = list(alike)
        unreliable = dict.fromkeys(name for row in of_check for name in str(row["spoils"]).split(", ") if name)
        variants = len({row["variant"] for row in of_check})
        checks.append({"check": check, "variants": variants, "left out": _by_table(unreliable) or "nothing"})
    return checks


def _by_table(names: Iterable[str]) -> str:
    """Names of tables and columns, the columns of one table together: `idle, steps (loader, other)`."""
    columns: dict[str, list[str]] = {}
    for name in names:
        table, _, column = name.partition(".")
        columns.setdefault(table, []).extend([_UNIT.sub("", column).replace("_", " ")] if column else [])
    return ", ".join(f"{table} ({', '.join(found)})" if found else table for table, found in columns.items())
