"""The page of all published machines: how fast each trains each model, and what that takes, as one
table that can be sorted.

a machine's chains -> a row for each model -> machines.html.j2 in the frame, style and script of
every page
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Final

from gpu_report.glossary import METRICS, Metric, Row, device_words
from gpu_report.page.shared import html_table, rendered
from gpu_report.printing.number_format import quantity
from gpu_report.study.study import Prices
from gpu_report.tables.variants import cost_of
from gpu_report.words import flags_but_projected
from gpu_report.writing.cards import CHAIN
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.rows import cost_note
from gpu_report.writing.table import Text

NUMBERS: Final = (
    *(column for column in CHAIN if isinstance(column, Metric)),
    replace(METRICS["tokens_per_s"], header="fastest, in tokens"),
    METRICS["mfu"],
    replace(METRICS["energy_per_sample_j"], header="energy per sample"),
)
"""Columns of numbers but for the price, whose unit is the currency."""
_BEFORE: Final = (
    Text("machine"),
    Text("model"),
    Text("not shown because", "refused", width=0.3),
    Text("device", if_differs=True),
)
_AFTER: Final = (
    Text("fastest configuration", "needs", width=0.3),
    Text("on all GPUs with", "all_settings", width=0.3),
    Text("quality flags", "flags", width=0.2),
    Text("PyTorch", "torch"),
    Text("protocol version", "protocol"),
    Text("measured on", "measured"),
    Text("bundle", is_name=True),
)
_ENDS: Final = ("", "_low", "_high")
_NOTHING: Final[Row] = {
    **{str(column.of or column.header): "" for column in (*_BEFORE, *_AFTER)},
    **{
        f"{name}{end}": math.nan
        for name in (*(each.column for each in NUMBERS), "throughput_per_s", "price_per_million")
        for end in _ENDS
    },
    "variant": "",
    "sources": {},
}


def price_column(currency: str) -> Metric:
    """What a million samples cost with the fastest configuration."""
    show = partial(quantity, unit=currency)
    return Metric(column="price_per_million", header="price of a million samples", show=show)


def machine_rows(machine: MachineResults, prices: Prices) -> list[Row]:
    """A row for each model that the machine trained; `sources` has the configuration that each rate
    is of.

    The fastest configuration is that on one device, also where it is the eager baseline.
    """
    rows: list[Row] = []
    for chain in machine.chains:
        eager, fastest = chain["pair"]
        cpu, fastest_cpu = chain["on_cpu"]
        shown = fastest if fastest["devices"] == 1 else _NOTHING
        sources = {
            "cpu": cpu,
            "fastest_cpu": fastest_cpu,
            "eager": eager if math.isfinite(chain["eager"]) else None,
            "fastest": shown,
            "on_all": chain["several"],
        }
        rows.append(
            {
                **_NOTHING,
                **shown,
                **chain,
                **{f"fastest{end}": shown[f"throughput_per_s{end}"] for end in _ENDS},
                "price_per_million": cost_of(
                    prices,
                    energy_j=1e6 * shown["energy_per_sample_j"],
                    device_s=1e6 / shown["throughput_per_s"],
                ),
                "machine": machine.name,
                "device": device_words(fastest["device"]),
                "flags": ", ".join(flags_but_projected(fastest)),
                "torch": machine.facts.get("PyTorch", ""),
                "protocol": machine.facts["protocol version"],
                "measured": machine.facts["measured on"],
                "bundle": Path(machine.folder).name,
                "sources": {
                    name: row["variant"] for name, row in sources.items() if row and row["variant"]
                },
            }
        )
    return rows


def refused_row(bundle: Path, reason: str) -> Row:
    """The row of a bundle that is not shown."""
    return {**_NOTHING, "machine": bundle.name, "bundle": bundle.name, "refused": reason}


def render_machines(rows: Sequence[Row], prices: Prices) -> str:
    """The text of the file, from rows of `machine_rows` and `refused_row`: those of one model are
    side by side.
    """
    ordered = sorted(rows, key=lambda row: str(row["model"]))
    table = html_table([*_BEFORE, *NUMBERS, price_column(prices.currency), *_AFTER], ordered)
    asked = {f"price_{key}": value or math.nan for key, value in asdict(prices).items()}
    return rendered(
        "machines.html.j2",
        {
            "machines": table,
            "sources": [{"bundle": row["bundle"], **row["sources"]} for row in ordered],
            "prices": asdict(prices),
        },
        bundles=len({row["bundle"] for row in ordered}),
        cost=cost_note([{**asked, "currency": prices.currency}]),
    )
