"""Every number of the study under a key, as TeX macros that a thesis can quote.

Keys, each after the machine's id and a slash: `<variant>/<metric>` for each variant;
`<experiment>/<group>/<value>/<metric>` for each row of an experiment; and `<workload>/<device>/<metric>` where the
first experiment has one variant only of that workload on that device.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from gpu_report.number_format import Quantity, count
from gpu_report.writing.cells import Row
from gpu_report.writing.metrics import METRICS
from gpu_report.writing.tex import Tex


def numbers(
    machine: str, variants: Sequence[Row], experiments: Mapping[str, Sequence[Row]], axes: Mapping[str, str]
) -> dict[str, Quantity]:
    """Every measured number of one machine by its key.

    Args:
        machine: Its id.
        variants: Rows of the table of variants.
        experiments: Rows of each experiment's table, by the experiment's name.
        axes: What each experiment varies.
    """
    found = {
        "study/variants": count(len(variants)),
        "study/measured": count(sum(row["status"] == "ok" for row in variants)),
    }
    for row in variants:
        found |= _of_row(str(row["variant"]), row)
    for name, rows in experiments.items():
        for row in rows:
            found |= _of_row(f"{name}/{_key(row['group'])}/{_key(row[axes[name]])}", row)
    found |= _short_keys(next(iter(experiments.values()), []))
    return {f"{_key(machine)}/{key}": number for key, number in found.items()}


def numbers_tex(found: Mapping[str, Quantity]) -> str:
    r"""The file that defines each number: `\gpurepnumber{key}{text}`, and `text` alone under `key/value`."""
    lines = [
        "% Every number of the report, made from the tables; \\gpurep{key} prints one.",
        "% key/value is the same without interval and unit.",
    ]
    for key, number in found.items():
        lines += [_macro(key, number.tex()), _macro(f"{key}/value", number.tex(interval=False, unit=False))]
    return "\n".join(lines) + "\n"


def _macro(key: str, text: str) -> str:
    return rf"\gpurepnumber{{{key}}}{{{Tex(text)}}}"


def _of_row(prefix: str, row: Row) -> dict[str, Quantity]:
    quantities = {metric.key: metric.quantity(row) for metric in METRICS.values() if metric.column in row}
    return {f"{prefix}/{key}": number for key, number in quantities.items() if number.is_measured}


def _short_keys(rows: Sequence[Row]) -> dict[str, Quantity]:
    twins = Counter((row["workload"], row["device"]) for row in rows)
    found: dict[str, Quantity] = {}
    for row in rows:
        if twins[row["workload"], row["device"]] == 1:
            found |= _of_row(f"{row['workload']}/{_key(row['device'])}", row)
    return found


def _key(value: object) -> str:
    """The value in characters that a TeX macro's name can hold without surprises."""
    return re.sub(r"[^A-Za-z0-9_.+]+", "-", str(value)).strip("-")
