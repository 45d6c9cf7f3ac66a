"""The numbers of the method, under their keys: protocol, confidence, thresholds of marks,
precisions, counts.

The prose quotes them from `numbers.tex` like any measured number, so that none of them is typed
into a sentence.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from statistics import median
from typing import Final

import pandas as pd

from gpu_report.glossary import Row
from gpu_report.printing.number_format import (
    Quantity,
    count,
    duration,
    exact,
    quantity,
    share,
    size,
)
from gpu_report.study.search import NEAR, RESOLUTION
from gpu_report.study.study import Protocol
from gpu_report.tables import marks
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.statistics import CONFIDENCE, SIGNIFICANCE
from gpu_report.traces.idle import SHORT_NS
from gpu_report.writing.limits import doubted_rows
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.numbers import KeyedNumber
from gpu_report.writing.tex import macro_key

_MARKS: Final[Mapping[str, float]] = {
    "noisy": marks.NOISY_RELATIVE_WIDTH,
    "host_jitter": marks.HOST_JITTER,
    "not_alone": marks.FOREIGN_CPU_SHARE,
    "stolen_time": marks.STEAL_SHARE,
    "throttled": marks.THROTTLED_SHARE,
    "power_capped": marks.POWER_CAPPED_SHARE,
    "clock_drift": marks.CLOCK_DRIFT,
}
_FORMATS: Final[Mapping[str, tuple[int, int]]] = {
    "fp32": (8, 23),
    "tf32": (8, 10),
    "fp16": (5, 10),
    "bf16": (8, 7),
}
"""Bits of exponent and mantissa: IEEE 754-2019 for fp32 and fp16, the makers' documents for tf32
and bf16.
"""

SHORT_KERNEL: Final = quantity(SHORT_NS / 1000, "µs", most_decimals=0)
"""What runs for less is called a short kernel."""

_ENDS: Final = {"smallest": min, "largest": max}
_PLANTED: Final = 0.05
"""The slowdown whose detection rate the text gives."""

_NETWORKS: Final[Mapping[str, Mapping[str, int]]] = {
    "unet": {"base_channels": 64},
    "lstm": {"embedding": 128, "hidden": 256},
    "transformer": {"width": 256, "heads": 8, "feed_forward": 1024},
}
"""What the text says of the built-in networks; the pictures of them are drawn with the same
sizes.
"""


def method_numbers(machine: MachineResults) -> list[KeyedNumber]:
    """What is not measured but decides how the measured numbers are to be read; then the machine's
    counts.
    """
    return [*_of_code(), *_of_machine(machine)]


def _of_code() -> Iterator[KeyedNumber]:
    declared: Mapping[str, Mapping[str, Quantity]] = {
        "study/study.py": {
            "protocol/settled_share": count(100 * (Protocol.settled_ratio - 1), "%"),
            "protocol/most_warm_up": count(Protocol.most_warm_up_epochs),
            "protocol/most_timed": count(Protocol.most_timed_epochs),
        },
        "study/search.py": {
            "search/resolution": count(100 * (RESOLUTION - 1), "%"),
            "search/near": count(100 * (1 - NEAR), "%"),
        },
        "tables/coverage.csv": _coverage(),
        "tables/statistics.py": {
            "protocol/confidence": count(100 * CONFIDENCE, "%"),
            "protocol/significance": count(100 * SIGNIFICANCE, "%"),
        },
        "traces/idle.py": {"threshold/short_launch": SHORT_KERNEL},
        "tables/marks.py": {
            f"threshold/{name}": count(100 * value, "%") for name, value in _MARKS.items()
        },
        "writing/method_numbers.py": {
            f"format/{name}/{part}_bits": count(bits)
            for name, found in _FORMATS.items()
            for part, bits in zip(("exponent", "mantissa"), found, strict=True)
        },
        **{
            f"workloads/{name}.py": {
                f"network/{name}/{part}": count(size_of) for part, size_of in sizes.items()
            }
            for name, sizes in _NETWORKS.items()
        },
    }
    for file, numbers in declared.items():
        for key, number in numbers.items():
            yield KeyedNumber(key=key, quantity=number, table=f"src/gpu_report/{file}")


def _coverage() -> dict[str, Quantity]:
    """What `python -m benchmarks.coverage` showed of the intervals, on the machines where
    it ran.
    """
    with (
        resources.files("gpu_report.tables").joinpath("coverage.csv").open(encoding="utf-8") as file
    ):
        table = pd.read_csv(file)
    on_cpu = table["device"] == "cpu"
    slower = table[f"slower_in_pairs_{_PLANTED}"]
    return {
        "coverage/configurations": count(len(table)),
        "coverage/processes": count(table["processes"].min()),
        "coverage/group": count(table["group"].max()),
        "coverage/least": share(table["coverage"].min()),
        "coverage/most": share(table["coverage"].max()),
        "coverage/different": share(table["different_in_pairs"].max()),
        "coverage/planted": share(_PLANTED),
        "coverage/slower_on_accelerator": share(slower[~on_cpu].min()),
        "coverage/deviation_on_accelerator": share(table["spread"][~on_cpu].max()),
        "coverage/slower_on_cpu": share(slower[on_cpu].max()),
        "coverage/deviation_on_cpu": share(table["spread"][on_cpu].min()),
        "coverage/in_a_row_on_cpu": share(table["coverage_in_a_row"][on_cpu].min()),
    }


def _of_machine(machine: MachineResults) -> Iterator[KeyedNumber]:
    asked, variants, measured = machine.protocols, machine.variants, machine.measured
    protocol: dict[str, tuple[set[float], str]] = {
        "profile_steps": ({each["profile_steps"] for each in asked}, ""),
        "timed_epochs": ({each.get("timed_epochs", 1) for each in asked}, ""),
        "timed_seconds": ({each.get("timed_seconds", 0) for each in asked}, "s"),
        "processes": ({int(row["processes"]) for row in measured}, ""),
    }
    of_variants = {
        f"protocol/{key}": count(values.pop(), unit)
        for key, (values, unit) in protocol.items()
        if len(values) == 1
    }
    seeds = {int(row["seed"]) + at for row in measured for at in range(int(row["processes"]))}
    if seeds:
        of_variants["protocol/first_seed"] = count(min(seeds))
        of_variants["protocol/last_seed"] = count(max(seeds))
    # How long each workload is trained: its epochs; of loops that it brings the passes of a
    # training, and how many.
    lengths = {
        (row["workload"], "trainings" if row["begins_anew"] else "epochs", row["epochs"])
        for row in variants
    } | {
        (row["workload"], "passes", row["steps_per_epoch"])
        for row in variants
        if row["begins_anew"] and row["steps_per_epoch"] > 0
    }
    for workload, name, number in sorted(lengths):
        of_variants[f"protocol/{macro_key(workload)}/{name}/{number:.0f}"] = count(int(number))
    for device in dict.fromkeys(str(row["device"]) for row in variants):
        for name, rows in (("variants", variants), ("measured", measured)):
            of_device = sum(row["device"] == device for row in rows)
            of_variants[f"study/{macro_key(device)}/{name}"] = count(of_device)
    verdicts = Counter(finding.verdict for finding in machine.findings)
    of_variants |= {
        **_marked("study", measured),
        "study/clean": count(sum(row["commit_state"] == "clean" for row in variants)),
        "study/traces": count(sum(bool(row["trace_sha256"]) for row in variants)),
        "study/doubted": count(len(doubted_rows(variants))),
        "study/findings": count(len(machine.findings)),
        **{f"study/findings/{macro_key(each)}": count(verdicts[each]) for each in verdicts},
    }
    if machine.telemetry:
        # How often the accelerator's driver was asked, and how long it took.
        periods = [each.period_s for each in machine.telemetry]
        cost_ms = median(each.sample_cost_ms for each in machine.telemetry)
        of_variants["telemetry/shortest_period"] = duration(min(periods))
        of_variants["telemetry/longest_period"] = duration(max(periods))
        of_variants["telemetry/asking_time"] = duration(cost_ms / 1000)
    of_variants |= {
        f"price/{name}": exact(row[f"price_per_{name}"], str(row["currency"]))
        for row in variants[:1]
        for name in ("kwh", "device_hour")
        if math.isfinite(row[f"price_per_{name}"])
    }
    doubts = rows_of(machine.tables.trace_doubts)
    checks = Counter(check for check, _ in {(row["check"], row["variant"]) for row in doubts})
    of_traces = {
        "trace/profiled": count(len(machine.profiled)),
        "trace/doubted": count(len(machine.doubted)),
        **{f"trace/doubted/{macro_key(check)}": count(checks[check]) for check in sorted(checks)},
    }
    sizes = [int(row["bytes"]) for row in rows_of(machine.tables.transfers)]
    of_transfers = {f"transfer/{end}": size(pick(sizes)) for end, pick in _ENDS.items() if sizes}
    tables = {
        "variants": of_variants,
        **{each.name: _of_experiment(each.name, machine) for each in machine.experiments},
        "trace_doubts": of_traces,
        "transfers": of_transfers,
    }
    for table, numbers in tables.items():
        for key, number in numbers.items():
            yield KeyedNumber(
                key=f"{macro_key(machine.id)}/{key}", quantity=number, table=machine.csv_path(table)
            )


def _of_experiment(name: str, machine: MachineResults) -> dict[str, Quantity]:
    measured = [row for row in machine.rows_of(name) if row["status"] == "ok"]
    return {f"{macro_key(name)}/measured": count(len(measured)), **_marked(name, measured)}


def _marked(name: str, measured: Iterable[Row]) -> dict[str, Quantity]:
    """How many of the variants of an experiment, or of the study, carry each mark."""
    marked = Counter(
        mark for row in measured for mark in dict.fromkeys(marks.marks_in(str(row["marks"])))
    )
    return {f"{macro_key(name)}/marked/{macro_key(mark)}": count(marked[mark]) for mark in marked}
