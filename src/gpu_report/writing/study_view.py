"""What every section may use: the study, its machines, and what they have in common, ready to be printed.

StudyView -> MachineView (one machine) and ExperimentSection (one experiment) -> ExperimentView (one on the other)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpu_report.findings.discussion import rank_effects
from gpu_report.findings.finding import Finding
from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.bundle import rows_of
from gpu_report.writing import workload_tables
from gpu_report.writing.cells import Row
from gpu_report.writing.comparison_table import comparison_tables
from gpu_report.writing.discussion_view import AnswerView, answers
from gpu_report.writing.experiment_section import ExperimentSection
from gpu_report.writing.finding_view import FindingView
from gpu_report.writing.headline import headline_of_several
from gpu_report.writing.listing import ListingLine, SourceFile, excerpt
from gpu_report.writing.machine_view import MachineView
from gpu_report.writing.pictures import Picture
from gpu_report.writing.summary_view import ROOM_FOR_EACH, ROOM_FOR_ONE, SummaryView
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.words import MEMORY_KINDS, date_words, device_words, option_words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """The whole study for the templates, where it is called `study`; what it is asked for is made when asked."""

    title: str
    machines: tuple[MachineView, ...]
    """In the order in which they are shown, one at least."""
    experiment_list: tuple[Experiment, ...]
    """All that the configuration asks, also those that no machine has variants of."""
    comparison: "pd.DataFrame"
    """The table COMPARISON; without rows where one machine is shown."""
    all_comparison_findings: tuple[Finding, ...]
    comparison_pictures: tuple[Picture, ...]
    own_pictures: tuple[Picture, ...] = ()
    """Of the networks that were trained, and of the workflow."""
    source: SourceFile

    @property
    def several(self) -> bool:
        """Whether more than one machine is shown, so that each number has to say whose it is."""
        return len(self.machines) > 1

    @cached_property
    def experiments(self) -> list[ExperimentSection]:
        """The experiments, in the order of the configuration."""
        return [
            ExperimentSection(
                experiment=experiment,
                parts=tuple(
                    part for machine in self.machines for part in machine.experiments if part.name == experiment.name
                ),
                several=self.several,
                accelerator_shown=self.has_accelerator,
            )
            for experiment in self.experiment_list
        ]

    @cached_property
    def records(self) -> list[Record]:
        """The records of all machines."""
        return [record for machine in self.machines for record in machine.records]

    @cached_property
    def measured(self) -> list[Row]:
        """The variants that have numbers, of all machines."""
        return [row for machine in self.machines for row in machine.measured]

    @property
    def has_accelerator(self) -> bool:
        """Whether any machine measured anything on another device than the CPU."""
        return any(machine.has_accelerator for machine in self.machines)

    @cached_property
    def dates(self) -> tuple[str, str]:
        """First and last day of measuring on any machine."""
        days = sorted(record.provenance.measured_at[:10] for record in self.records)
        return date_words(days[0]), date_words(days[-1])

    @cached_property
    def processes(self) -> str:
        """How many processes measured a variant: a number, or two with a range between."""
        return _range_words(int(row["processes"]) for row in self.measured)

    @cached_property
    def profile_steps(self) -> str:
        """How many steps a profiled run recorded."""
        return _range_words(int(record.measurement["protocol"]["profile_steps"]) for record in self.records)

    @cached_property
    def timing(self) -> str:
        """How much each process timed at least; empty where the protocol did not ask for it."""
        asked = [record.measurement["protocol"] for record in self.records]
        epochs = [each["timed_epochs"] for each in asked if each.get("timed_epochs")]
        seconds = [each["timed_seconds"] for each in asked if each.get("timed_seconds")]
        if not (epochs and seconds):
            return ""
        least, most = min(seconds), max(seconds)
        return f"{_range_words(epochs)} epochs and {least:g}{'' if least == most else f' to {most:g}'} s"

    @cached_property
    def protocol_versions(self) -> str:
        """The versions of the protocol by which the records were measured."""
        return " and ".join(sorted({str(record.measurement["protocol"]["version"]) for record in self.records}))

    @cached_property
    def memory_kinds(self) -> str:
        """What kind of memory was measured on which devices, in words."""
        kinds: dict[str, list[str]] = {}
        for row in self.measured:
            kinds.setdefault(str(row["memory_kind"]), []).append(device_words(row["device"]))
        return "; ".join(
            f"{MEMORY_KINDS.get(kind, kind)} ({', '.join(dict.fromkeys(devices))})" for kind, devices in kinds.items()
        )

    @cached_property
    def sampling(self) -> str:
        """How the accelerators' drivers were asked, in words; empty where none was."""
        told = {machine.id: machine.hardware.sampling for machine in self.machines if machine.hardware.sampling}
        if len(set(told.values())) == 1:
            return next(iter(told.values()))
        return "; ".join(f"on {machine} {words}" for machine, words in told.items())

    @property
    def has_own_loops(self) -> bool:
        """Whether a workload brought loops of its own."""
        return any(row["begins_anew"] for machine in self.machines for row in machine.variants)

    def has_crossover(self, workload: str) -> bool:
        """Whether devices are compared from how large a batch on one is faster with this workload."""
        return any((machine.tables.crossovers["workload"] == workload).any() for machine in self.machines)

    @property
    def is_calibrated(self) -> bool:
        """Whether the ceilings of any machine were measured."""
        return any(machine.hardware.peaks_table() for machine in self.machines)

    @cached_property
    def headline(self) -> list[str]:
        """What came out, for the terminal: three lines, or one for each of several machines and one on what follows."""
        if not self.several:
            return list(self.machines[0].headline)
        return headline_of_several({machine.id: machine.headline for machine in self.machines})

    @cached_property
    def models(self) -> list[Mapping[str, Any]]:
        """What the workloads said of themselves, one per workload."""
        return workload_tables.workload_facts(self.records)

    def pictures_about(self, subject: str) -> list[Picture]:
        """Those of a workload's network, or of the workflow, whose subject is `study`."""
        return [picture for picture in self.own_pictures if picture.subject == subject]

    def workload_table(self) -> TableBlock:
        return workload_tables.workload_table(self.records)

    def configuration_table(self) -> TableBlock:
        return workload_tables.configuration_table(self.records)

    def listing(self, *functions: str) -> list[list[ListingLine]]:
        """The lines of these functions of the training loop's source file."""
        return excerpt(self.source, functions)

    def options(self, experiment: str) -> list[tuple[str, str, str]]:
        """What an experiment switches on: name, title and meaning of each, in the order of the configuration."""
        (section,) = (section for section in self.experiments if section.name == experiment)
        return option_words(section.values)

    def summary(self, machine: MachineView) -> SummaryView:
        """What the summary says of a machine, in more words where it is the only one."""
        return SummaryView(
            machine=machine.id,
            rows=machine.variants,
            experiments=machine.experiments,
            decided=machine.decided,
            recommended=machine.recommendations,
            room=ROOM_FOR_EACH if self.several else ROOM_FOR_ONE,
        )

    def answers(self, machine: MachineView) -> list[AnswerView]:
        """The questions of the discussion, as the findings of one machine answer them."""
        axes = {experiment.name: experiment.axis for experiment in self.experiment_list}
        ranking = rank_effects(machine.tables, self.experiment_list)
        return answers(machine.id, machine.results.findings, axes, ranking=ranking)

    @cached_property
    def compared(self) -> Sequence[Row]:
        """One row per variant that two machines measured, and pair of them."""
        return rows_of(self.comparison)

    def comparison_tables(self) -> list[TableBlock]:
        """One table for each two machines that measured the same variants."""
        return comparison_tables(self.compared)

    @cached_property
    def comparison_findings(self) -> list[FindingView]:
        """The findings about machines side by side."""
        return [FindingView(finding=finding) for finding in self.all_comparison_findings]


def _range_words(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers)) or [0]
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
