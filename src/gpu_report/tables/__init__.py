"""Records and trace tables in, the tables of the study out.

schema: every column; marks, processes, statistics: how a row is computed; one module per table or family of tables
"""

from gpu_report.tables.comparison import tabulate_comparison
from gpu_report.tables.consistency import tabulate_consistency
from gpu_report.tables.crossovers import tabulate_crossovers
from gpu_report.tables.curves import tabulate_convergence, tabulate_epochs, tabulate_losses
from gpu_report.tables.efficiency import tabulate_efficiency
from gpu_report.tables.experiments import tabulate_experiment
from gpu_report.tables.machine_facts import tabulate_machine
from gpu_report.tables.marks import Today
from gpu_report.tables.operations import tabulate_category_shares, tabulate_top_operations
from gpu_report.tables.own_loops import tabulate_own_loops
from gpu_report.tables.peaks import tabulate_peaks
from gpu_report.tables.phases import tabulate_phases
from gpu_report.tables.sources import tabulate_sources
from gpu_report.tables.telemetry import tabulate_telemetry
from gpu_report.tables.traces import (
    tabulate_traces,
)
from gpu_report.tables.transfers import tabulate_transfers
from gpu_report.tables.variants import tabulate_variants

__all__ = [
    "Today",
    "tabulate_category_shares",
    "tabulate_comparison",
    "tabulate_consistency",
    "tabulate_convergence",
    "tabulate_crossovers",
    "tabulate_efficiency",
    "tabulate_epochs",
    "tabulate_experiment",
    "tabulate_losses",
    "tabulate_machine",
    "tabulate_own_loops",
    "tabulate_peaks",
    "tabulate_phases",
    "tabulate_sources",
    "tabulate_telemetry",
    "tabulate_top_operations",
    "tabulate_traces",
    "tabulate_transfers",
    "tabulate_variants",
]
