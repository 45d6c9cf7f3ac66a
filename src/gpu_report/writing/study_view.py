"""What every section may use: the study, the machine and what was measured on it, ready to be printed.

StudyView -> MachineView and ExperimentSection (what one experiment asks) -> ExperimentView (what was measured of it)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from gpu_report.findings.discussion import rank_effects
from gpu_report.findings.finding import Finding
from gpu_report.glossary import Row
from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.bundle import rows_of
from gpu_report.writing import workload_tables
from gpu_report.writing.comparison_table import comparison_tables
from gpu_report.writing.decisions import decision_table, decisions
from gpu_report.writing.discussion_view import AnswerView, answers
from gpu_report.writing.experiment_section import ExperimentSection
from gpu_report.writing.finding_view import FindingView
from gpu_report.writing.listing import ListingLine, SourceFile, excerpt
from gpu_report.writing.machine_view import MachineView
from gpu_report.writing.pictures import Picture
from gpu_report.writing.rows import first_of_each
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.words import MEMORY_KINDS, device_words, option_words

if TYPE_CHECKING:
    import pandas as pd

_FIRST_DECISIONS: Final = 3
"""How many symptoms the summary has room for."""


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """The whole study for the templates, where it is called `study`; what it is asked for is made when asked."""

    title: str
    machine: MachineView
    """Which the report is about."""
    experiment_list: tuple[Experiment, ...]
    """All that the configuration asks, also those that the machine has no variants of."""
    comparison: "pd.DataFrame"
    """The table COMPARISON; without rows where no other machine is beside it."""
    all_comparison_findings: tuple[Finding, ...]
    comparison_pictures: tuple[Picture, ...]
    own_pictures: tuple[Picture, ...] = ()
    """Of the networks that were trained."""
    source: SourceFile

    @cached_property
    def experiments(self) -> list[ExperimentSection]:
        """The experiments, in the order of the configuration."""
        return [
            ExperimentSection(
                experiment=experiment,
                result=next((one for one in self.machine.experiments if one.name == experiment.name), None),
                has_accelerator=self.machine.has_accelerator,
            )
            for experiment in self.experiment_list
        ]

    @property
    def records(self) -> Sequence[Record]:
        return self.machine.records

    @property
    def measured(self) -> list[Row]:
        """The variants that have numbers."""
        return self.machine.measured

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

    @property
    def has_own_loops(self) -> bool:
        """Whether a workload brought loops of its own."""
        return any(row["begins_anew"] for row in self.machine.variants)

    @cached_property
    def models(self) -> list[Mapping[str, Any]]:
        """What the workloads said of themselves, one per workload."""
        return workload_tables.workload_facts(self.records)

    @property
    def generated(self) -> list[str]:
        """The workloads whose data are made by a generator, which the built-in ones say with their first word."""
        return [str(model["title"]) for model in self.models if model["is_generated"]]

    def pictures_about(self, subject: str) -> list[Picture]:
        """Those of a workload's network."""
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

    @cached_property
    def _axes(self) -> dict[str, str]:
        return {experiment.name: experiment.axis for experiment in self.experiment_list}

    @cached_property
    def _decisions(self) -> list[Row]:
        return decisions(self.machine.results.findings, self._axes, has_gpu=self.machine.has_accelerator)

    def decision_table(self) -> TableBlock | None:
        """What to do, by symptom; None where no finding recommends anything."""
        return self._decision_table(
            self._decisions,
            name="decisions",
            caption="Symptoms, the metric that shows each, the action, and its gain in throughput on this machine.",
        )

    def first_decisions_table(self) -> TableBlock | None:
        """The action with the greatest gain for each of the first symptoms, as the summary has room for them."""
        return self._decision_table(
            first_of_each(self._decisions, "symptom")[:_FIRST_DECISIONS],
            name="first_decisions",
            caption="What to do first, and its gain in throughput on this machine.",
        )

    def _decision_table(self, rows: Sequence[Row], *, name: str, caption: str) -> TableBlock | None:
        if not rows:
            return None
        table = decision_table(rows, name=name, caption=caption, source=self.machine.findings_path)
        return table.owned_by(self.machine.id)

    @cached_property
    def answers(self) -> list[AnswerView]:
        """The questions of the discussion, as the findings answer them."""
        return answers(self.machine.results.findings, self._axes)

    @property
    def ranking(self) -> str:
        """What changed the throughput most, in one sentence; empty where nothing did."""
        return rank_effects(self.machine.tables, self.experiment_list)

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
