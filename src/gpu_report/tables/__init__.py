"""Records, calibration, searches and traces in, the tables of the study out.

A module declares a table and, beside it, makes its rows; MADE_BY lists them all. The commands,
`gpu-report columns` and the workflow read that list.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.batch_sizes import SearchRecord
from gpu_report.records.calibration import Calibration
from gpu_report.records.record import Record, SentinelPoint
from gpu_report.storage.columns import Table
from gpu_report.study.study import Experiment, Prices
from gpu_report.tables.batch_sizes import BATCH_SIZES, tabulate_batch_sizes
from gpu_report.tables.ceilings import MADE_BY_CALIBRATION
from gpu_report.tables.curves import (
    CONSISTENCY,
    CONVERGENCE,
    EPOCHS,
    LOSSES,
    TELEMETRY,
    tabulate_consistency,
    tabulate_convergence,
    tabulate_epochs,
    tabulate_losses,
    tabulate_telemetry,
)
from gpu_report.tables.efficiency import (
    EFFICIENCY,
    OWN_LOOPS,
    tabulate_efficiency,
    tabulate_own_loops,
)
from gpu_report.tables.experiments import CROSSOVERS, tabulate_crossovers
from gpu_report.tables.machine_facts import MACHINE, tabulate_machine
from gpu_report.tables.marks import Today
from gpu_report.tables.operations import CATEGORY_SPEEDUPS, tabulate_category_speedups
from gpu_report.tables.processes import brings_loop
from gpu_report.tables.scaling import (
    COMMUNICATION,
    MODEL_SPLITS,
    SCALING,
    tabulate_communication,
    tabulate_model_splits,
    tabulate_scaling,
)
from gpu_report.tables.sessions import (
    SENTINELS,
    Sessions,
    sessions_of,
    tabulate_sentinels,
)
from gpu_report.tables.sources import SOURCES, tabulate_sources
from gpu_report.tables.traces import (
    ROWS_OF_PROFILE,
    tabulate_profiles,
)
from gpu_report.tables.variants import VARIANTS, tabulate_variants
from gpu_report.traces.tables import TraceTables
from gpu_report.traces.timed import TimedStep, of_timed_steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """What the tables of one machine are made from."""

    experiments: Sequence[Experiment]
    records: Sequence[Record]
    calibration: Calibration
    traces: Mapping[str, TraceTables]
    today: Today
    prices: Prices
    searches: Sequence[SearchRecord] = ()
    points: Sequence[SentinelPoint] = ()

    @cached_property
    def sessions(self) -> Sessions:
        """The session of each record and point, and the spreads between sessions."""
        return sessions_of([*self.records, *self.searches], self.points)

    @cached_property
    def timed_traces(self) -> Mapping[str, TraceTables]:
        """The tables of the traces as of steps that took as long as the records say."""
        steps = {record.variant: TimedStep.of(record) for record in self.records}
        return {
            variant: of_timed_steps(tables, step) if (step := steps.get(variant)) else tables
            for variant, tables in self.traces.items()
        }


def _of_profiles(table: Table, of: Measured) -> Sequence[Row]:
    return tabulate_profiles(table, of.timed_traces)


MADE_BY: Final[Mapping[Table, Callable[[Measured], Iterable[Row]]]] = {
    VARIANTS: lambda of: tabulate_variants(
        of.records, today=of.today, prices=of.prices, sessions=of.sessions
    ),
    CONVERGENCE: lambda of: tabulate_convergence(of.records),
    LOSSES: lambda of: tabulate_losses(of.records),
    EPOCHS: lambda of: tabulate_epochs(of.records),
    TELEMETRY: lambda of: tabulate_telemetry(of.records),
    CONSISTENCY: lambda of: tabulate_consistency(of.records),
    CROSSOVERS: lambda of: tabulate_crossovers(of.experiments, of.records, of.sessions),
    MACHINE: lambda of: tabulate_machine(of.records),
    SENTINELS: lambda of: tabulate_sentinels(of.points, of.sessions.numbers),
    SOURCES: lambda of: tabulate_sources(
        of.records, of.timed_traces, today=of.today, sessions=of.sessions
    ),
    EFFICIENCY: lambda of: tabulate_efficiency(of.records, of.calibration),
    SCALING: lambda of: tabulate_scaling(of.records, of.sessions),
    OWN_LOOPS: lambda of: tabulate_own_loops(of.records, of.calibration, of.traces),
    COMMUNICATION: lambda of: tabulate_communication(of.records, of.traces, of.sessions),
    MODEL_SPLITS: lambda of: tabulate_model_splits(of.records, of.sessions),
    BATCH_SIZES: lambda of: tabulate_batch_sizes(of.searches),
    CATEGORY_SPEEDUPS: lambda of: tabulate_category_speedups(
        of.traces, loops={record.variant for record in of.records if brings_loop(record)}
    ),
    **{table: partial(_of_profiles, table) for table in ROWS_OF_PROFILE},
}
"""Every table but those of the experiments and the calibration, and what makes it.

Its file, and what it is in Tables, have its name.
"""

STUDY_TABLES: Final = (*MADE_BY, *MADE_BY_CALIBRATION)
