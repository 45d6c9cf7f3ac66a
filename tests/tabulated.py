"""What makes the rows of each table, with the rows checked and as the DataFrame that is read from
its CSV file.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import pandas as pd

from gpu_report.glossary import Row
from gpu_report.storage.columns import Table
from gpu_report.tables import (
    ceilings,
    curves,
    efficiency,
    experiments,
    machine_facts,
    operations,
    scaling,
    sources,
    variants,
)
from gpu_report.tables import traces as of_traces

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables


def _framed(table: Table, make: Callable[..., Iterable[Row]]) -> Callable[..., pd.DataFrame]:
    @wraps(make)
    def tabulate(*arguments: Any, **options: Any) -> pd.DataFrame:
        return table.from_rows(make(*arguments, **options))

    return tabulate


tabulate_variants = _framed(variants.VARIANTS, variants.tabulate_variants)
tabulate_convergence = _framed(curves.CONVERGENCE, curves.tabulate_convergence)
tabulate_losses = _framed(curves.LOSSES, curves.tabulate_losses)
tabulate_epochs = _framed(curves.EPOCHS, curves.tabulate_epochs)
tabulate_telemetry = _framed(curves.TELEMETRY, curves.tabulate_telemetry)
tabulate_consistency = _framed(curves.CONSISTENCY, curves.tabulate_consistency)
tabulate_crossovers = _framed(experiments.CROSSOVERS, experiments.tabulate_crossovers)
tabulate_machine = _framed(machine_facts.MACHINE, machine_facts.tabulate_machine)
tabulate_sources = _framed(sources.SOURCES, sources.tabulate_sources)
tabulate_peaks = _framed(ceilings.PEAKS, ceilings.tabulate_peaks)
tabulate_transfers = _framed(ceilings.TRANSFERS, ceilings.tabulate_transfers)
tabulate_links = _framed(ceilings.LINKS, ceilings.tabulate_links)
tabulate_efficiency = _framed(efficiency.EFFICIENCY, efficiency.tabulate_efficiency)
tabulate_scaling = _framed(scaling.SCALING, scaling.tabulate_scaling)
tabulate_own_loops = _framed(efficiency.OWN_LOOPS, efficiency.tabulate_own_loops)
tabulate_communication = _framed(scaling.COMMUNICATION, scaling.tabulate_communication)
tabulate_model_splits = _framed(scaling.MODEL_SPLITS, scaling.tabulate_model_splits)
tabulate_comparison = _framed(variants.COMPARISON, variants.tabulate_comparison)
tabulate_experiment = _framed(experiments.EXPERIMENT, experiments.tabulate_experiment)
tabulate_category_speedups = _framed(
    operations.CATEGORY_SPEEDUPS, operations.tabulate_category_speedups
)


def tabulate_profiles(name: str, traces: "Mapping[str, TraceTables]") -> pd.DataFrame:
    """The table of that name, of those whose rows are one profiled variant after the other."""
    (table,) = (table for table in of_traces.ROWS_OF_PROFILE if table.name == name)
    return table.from_rows(of_traces.tabulate_profiles(table, traces))
