r"""Every number of the study under a key, as TeX macros that a thesis can quote, and as a table
that says where from.

Keys, each after the machine's id and a slash: `<variant>/<metric>` for each variant;
`<experiment>/<group>/<value>/<metric>` for each row of an experiment;
`<workload>/<device>/<metric>`, or with several sizes `<workload>-<size>/<device>/<metric>`, where
the first experiment has one variant only of that on that device; and `<table>/<row>/<metric>` for
what other tables show. Without a machine: what the text quotes of the method.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Final

import pandas as pd

from gpu_report.glossary import SHOWN, Row
from gpu_report.printing.number_format import (
    Quantity,
    count,
    exact,
    memory,
    quantity,
    share,
    size,
)
from gpu_report.storage.columns import Table, text
from gpu_report.study.search import NEAR, RESOLUTION
from gpu_report.study.study import Protocol
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.tables.marks import FLAG_SIZE, HOST_JITTER
from gpu_report.tables.statistics import CONFIDENCE, SIGNIFICANCE
from gpu_report.traces.idle import SHORT_NS
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import KeyedNumber
from gpu_report.writing.tex import Tex, escape, macro_key

_UNITS: Final = {"×": Tex(r"\gpurepx"), "µs": Tex(r"\gpurepmicro s")}
"""Units that are no text; the package says how each is set in text and in maths."""

_FORMATS: Final = {"fp32": (8, 23), "tf32": (8, 10), "fp16": (5, 10), "bf16": (8, 7)}
"""Bits of exponent and mantissa: IEEE 754-2019 for fp32 and fp16, the makers' documents for tf32
and bf16.
"""
_NETWORKS: Final[Mapping[str, Mapping[str, int]]] = {
    "unet": {"base_channels": 64},
    "lstm": {"embedding": 128, "hidden": 256},
    "transformer": {"width": 256, "heads": 8, "feed_forward": 1024},
    "resnet": {"classes": 10},
    "gpt2": {"layers": 12, "heads": 12, "width": 768, "context": 1024},
}
SHORT_KERNEL: Final = quantity(SHORT_NS / 1000, "µs", most_decimals=0)


NUMBERS: Final = Table(
    name="numbers",
    meaning="a number of the report",
    columns=(
        text("key", "its key for \\gpurep"),
        text("value", "the number alone"),
        text("low", "the lower end of its interval; empty without one"),
        text("high", "the upper end"),
        text("unit", "its unit"),
        text("text", "all of this as the report prints it"),
        text("table", "the CSV that has it, or the file of the code that decides it"),
        text("run", "the variant; empty where it is about several or none"),
    ),
)


def method_numbers() -> list[KeyedNumber]:
    """What is not measured but decides how to read the measured numbers, as far as the text quotes
    it; `table` is the file that decides it.
    """
    coverage = resources.files("gpu_report.tables").joinpath("coverage.csv")
    with coverage.open(encoding="utf-8") as file:
        table = pd.read_csv(file)  # what `python -m benchmarks.coverage` showed of the intervals
    in_a_row = table.loc[table["device"] == "cpu", "coverage_in_a_row"]
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
        "tables/coverage.csv": {
            "coverage/processes": count(table["processes"].min()),
            "coverage/group": count(table["group"].max()),
            "coverage/least": share(table["coverage"].min()),
            "coverage/most": share(table["coverage"].max()),
            "coverage/different": share(table["different_in_pairs"].max()),
            "coverage/in_a_row_on_cpu": share(in_a_row.min()),
        },
        "tables/statistics.py": {
            "protocol/confidence": count(100 * CONFIDENCE, "%"),
            "protocol/significance": count(100 * SIGNIFICANCE, "%"),
        },
        "tables/marks.py": {
            "threshold/host_jitter": count(100 * HOST_JITTER, "%"),
            "threshold/flag_size": count(FLAG_SIZE),
        },
        "traces/idle.py": {"threshold/short_kernel": SHORT_KERNEL},
        "writing/numbers.py": {
            f"format/{name}/{part}_bits": count(bits)
            for name, format_bits in _FORMATS.items()
            for part, bits in zip(("exponent", "mantissa"), format_bits, strict=True)
        },
        **{
            f"workloads/{name}.py": {
                f"network/{name}/{part}": count(number) for part, number in sizes.items()
            }
            for name, sizes in _NETWORKS.items()
        },
    }
    return [
        KeyedNumber(key=key, quantity=number, table=f"src/gpu_report/{file}")
        for file, numbers in declared.items()
        for key, number in numbers.items()
    ]


def numbers_of(machine: MachineResults) -> list[KeyedNumber]:
    """Every measured number of one machine's variants and experiments, by its key."""
    found = [
        KeyedNumber(key=key, quantity=number, table=machine.csv_path(table))
        for table, numbers in _of_method(machine).items()
        for key, number in numbers.items()
    ]
    variants = machine.csv_path("variants")
    for row in machine.variants:
        found += _of_row(str(row["variant"]), row, variants)
    for experiment in machine.experiments:
        for row in machine.rows_of(experiment.name):
            value = macro_key(row[experiment.axis])
            source = machine.csv_path(experiment.name)
            found += _of_row(f"{experiment.name}/{macro_key(row['group'])}/{value}", row, source)
    found += [
        KeyedNumber(
            key=f"{each.name}/target",
            quantity=exact(each.target),
            table=machine.csv_path(each.name),
        )
        for each in machine.experiments
        if each.target is not None
    ]
    for experiment in machine.experiments[:1]:
        found += _short_keys(machine.rows_of(experiment.name), machine.csv_path(experiment.name))
    return [replace(number, key=f"{macro_key(machine.id)}/{number.key}") for number in found]


def _of_method(machine: MachineResults) -> Mapping[str, Mapping[str, Quantity]]:
    """By table the numbers of the machine's method that the text or a note of a table gives."""
    variants = machine.variants
    found = {
        "study/variants": count(len(variants)),
        "study/measured": count(len(machine.measured)),
        "study/clean": count(sum(row["commit_state"] == "clean" for row in variants)),
        "study/traces": count(sum(bool(row["trace_sha256"]) for row in variants)),
        **{
            f"study/flagged/{macro_key(mark)}": count(number)
            for mark, number in machine.flagged.items()
            if number
        },
    }
    seeds = [
        int(row["seed"]) + at for row in machine.measured for at in range(int(row["processes"]))
    ]
    if seeds:
        found["protocol/first_seed"] = count(min(seeds))
        found["protocol/last_seed"] = count(max(seeds))
    # Of records that do not say it: an epoch, however short, was enough then.
    for name, unit, unsaid in (("timed_epochs", "", 1), ("timed_seconds", "s", 0)):
        asked = {each.get(name, unsaid) for each in machine.protocols}
        if len(asked) == 1:
            found[f"protocol/{name}"] = count(asked.pop(), unit)
    for row in variants:
        for field in ("epochs", "steps_per_epoch"):
            if row[field] > 0:
                key = f"protocol/{macro_key(row['workload'])}/{field}/{row[field]:.0f}"
                found[key] = count(int(row[field]))
    found |= {
        f"{macro_key(row['variant'])}/memory_{name}": memory(row[f"memory_{name}_mib"])
        for row in variants
        for name in ("asked", "free")
        if math.isfinite(row[f"memory_{name}_mib"])
    }
    found |= {
        f"price/{name}": exact(row[f"price_per_{name}"], str(row["currency"]))
        for row in variants[:1]
        for name in ("kwh", "device_hour")
        if math.isfinite(row[f"price_per_{name}"])
    }
    doubts = rows_of(machine.tables.trace_doubts)
    checks = Counter(check for check, _ in {(row["check"], row["variant"]) for row in doubts})
    copied = [int(row["bytes"]) for row in rows_of(machine.tables.transfers)]
    return {
        "variants": found,
        "trace_doubts": {
            f"trace/doubted/{macro_key(check)}": count(checks[check]) for check in sorted(checks)
        },
        "transfers": {"transfer/smallest": size(min(copied))} if copied else {},
    }


def numbers_tex(found: Sequence[KeyedNumber], *, machine: str) -> str:
    r"""The file that defines each number: `\gpurepnumber{key}{value}{low}{high}{unit}`.

    Args:
        found: The numbers; of two with one key the first counts.
        machine: The one that a key without a machine is about.
    """
    lines = [
        "% Every number of the report, made from the tables; \\gpurep{key} prints one, without "
        "the machine's name in",
        "% front one of the machine below. In the braces: key, value, ends of the 95 % interval,",
        "% unit.",
        rf"\gpurepmachine{{{macro_key(machine)}}}",
    ]
    return "\n".join([*lines, *(_macro(number) for number in _each_once(found))]) + "\n"


def numbers_csv(found: Sequence[KeyedNumber]) -> str:
    """The same numbers as the CSV of NUMBERS."""
    return NUMBERS.rows_to_csv(
        {
            "key": number.key,
            "value": number.quantity.value,
            "low": number.quantity.low if number.quantity.has_interval else "",
            "high": number.quantity.high if number.quantity.has_interval else "",
            "unit": number.quantity.unit,
            "text": number.quantity.plain(),
            "table": number.table,
            "run": number.run,
        }
        for number in _each_once(found)
    )


def _each_once(found: Iterable[KeyedNumber]) -> list[KeyedNumber]:
    return [same[0] for same in grouped(found, lambda number: number.key).values()]


def _macro(number: KeyedNumber) -> str:
    quantity = number.quantity
    bounds = (quantity.low, quantity.high) if quantity.has_interval else ("", "")
    plain = [quantity.bare, *(bound.replace(",", "") for bound in bounds)]
    unit = _UNITS.get(quantity.unit, escape(quantity.unit))
    return "\\gpurepnumber" + "".join(f"{{{part}}}" for part in (number.key, *plain, unit))


def _of_row(prefix: str, row: Row, table: str) -> list[KeyedNumber]:
    quantities = {
        metric.key: metric.quantity(row) for metric in SHOWN.values() if metric.column in row
    }
    return [
        KeyedNumber(key=f"{prefix}/{key}", quantity=number, table=table, run=str(row["variant"]))
        for key, number in quantities.items()
        if number.is_measured
    ]


def _short_keys(rows: Sequence[Row], source: str) -> list[KeyedNumber]:
    sizes = Counter(workload for workload, _ in {(row["workload"], row["size"]) for row in rows})

    def name(row: Row) -> str:
        model = (
            row["workload"] if sizes[row["workload"]] == 1 else f"{row['workload']}-{row['size']}"
        )
        return f"{macro_key(model)}/{macro_key(row['device'])}"

    twins = Counter(map(name, rows))
    return [
        number
        for row in rows
        if twins[name(row)] == 1
        for number in _of_row(name(row), row, source)
    ]
