"""What the sections may use of one machine: its tables, figures and findings, ready to be printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpu_report.findings.finding import Finding
from gpu_report.glossary import Row
from gpu_report.machine import hardware_words
from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.writing import study_tables
from gpu_report.writing.decisions import decisions
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.finding_view import FindingView, answered
from gpu_report.writing.hardware_view import HardwareView
from gpu_report.writing.headline import headline
from gpu_report.writing.limits import doubts, limits
from gpu_report.writing.loops_view import LoopsView
from gpu_report.writing.pictures import Picture, figures_of, pictures
from gpu_report.writing.rows import first_of_each
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.tex import Tex
from gpu_report.writing.trace_view import TraceView
from gpu_report.writing.words import date_words, device_words, titled

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec

_OPERATIONS_SHOWN = 5
_VARIANTS_WITH_OPERATIONS = 2
"""Of each variant; the CSV file has ten."""


@dataclass(frozen=True, kw_only=True)
class MachineResults:
    """All that one machine's records gave; the figures lie in `figures/<id>/` of the report's folder."""

    id: str
    experiments: Sequence[Experiment]
    """Those that the machine has variants of, in the order of the configuration."""
    tables: Tables
    findings: Sequence[Finding]
    figures: "Sequence[FigureSpec]"
    records: Sequence[Record]
    """Of all variants."""
    folder: str
    """Where its results lie, seen from the project: what is printed as the source of a number."""
    is_imported: bool = False
    """Whether a bundle brought them."""


@dataclass(frozen=True, kw_only=True)
class MachineView:
    """One machine for the templates, where it is called `machine`; what it is asked for is made when asked."""

    results: MachineResults

    @property
    def id(self) -> str:
        return self.results.id

    @property
    def tables(self) -> Tables:
        return self.results.tables

    @property
    def records(self) -> Sequence[Record]:
        return self.results.records

    @cached_property
    def variants(self) -> Sequence[Row]:
        return rows_of(self.tables.variants)

    @cached_property
    def measured(self) -> list[Row]:
        """The variants that have numbers."""
        return [row for row in self.variants if row["status"] == "ok"]

    @property
    def unmeasured(self) -> list[Row]:
        """The variants without numbers; each row has the reason."""
        return [row for row in self.variants if row["status"] != "ok"]

    @cached_property
    def devices(self) -> list[str]:
        """The devices that measured, in words."""
        return [device_words(device) for device in dict.fromkeys(row["device"] for row in self.measured)]

    @property
    def has_accelerator(self) -> bool:
        """Whether anything was measured on another device than the CPU."""
        return any(row["device"] != "cpu" for row in self.measured)

    @cached_property
    def dates(self) -> tuple[str, str]:
        """First and last day of measuring."""
        days = sorted(record.provenance.measured_at[:10] for record in self.records)
        return date_words(days[0]), date_words(days[-1])

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The machine's facts by name, as in its table."""
        return {str(row["name"]): str(row["value"]) for row in rows_of(self.tables.machine)}

    @property
    def name(self) -> str:
        """Its hardware as readers name it; its id where no record has it."""
        return hardware_words(record.environment for record in self.records) or self.id

    @property
    def title_facts(self) -> list[tuple[str, str]]:
        """What the title page says below the machine and the days."""
        software = [("PyTorch", self.facts["PyTorch"])] if "PyTorch" in self.facts else []
        return [*software, ("Measured", f"{len(self.measured)} of {len(self.variants)} configurations")]

    @cached_property
    def headline(self) -> tuple[str, str, str]:
        axes = {experiment.name: experiment.axis for experiment in self.results.experiments}
        decided = decisions(self.results.findings, axes, has_gpu=self.has_accelerator)
        return headline(self.tables, self.results.findings, decided)

    @cached_property
    def experiments(self) -> list[ExperimentView]:
        """The experiments it has variants of, in the order of the configuration."""
        return [self._experiment(experiment) for experiment in self.results.experiments]

    def _experiment(self, experiment: Experiment) -> ExperimentView:
        rows, label = rows_of(self.tables.experiments[experiment.name]), f"{self.id}/{experiment.name}"
        return ExperimentView(
            experiment=experiment,
            machine=self.id,
            rows=rows,
            source=self.csv_path(experiment.name),
            figures=self._pictures(figures_of(experiment.name, self.results.figures)),
            all_findings=tuple(self.results.findings),
            loops=LoopsView(label=label, rows=rows, tables=self.tables, csv_path=self.csv_path),
        )

    @cached_property
    def limits(self) -> Mapping[str, list[Tex]]:
        """What its numbers do not say, by what limits them."""
        return limits(self.variants)

    @property
    def doubts(self) -> list[Tex]:
        """Where its numbers are not reliable, in the few sentences that the summary has room for."""
        return doubts(self.variants)

    @property
    def tables_folder(self) -> str:
        return f"{self.results.folder}/tables"

    @property
    def record_path(self) -> str:
        return f"{self.results.folder}/runs/<variant>/record.json"

    @property
    def rebuilt_by(self) -> str:
        """The command that makes this report from its records, and measures nothing that is measured."""
        chosen = f' --config "machines=[{self.id}]"' if self.results.is_imported else ""
        return f"snakemake --cores 4 report/gpu_report.pdf{chosen}"

    @property
    def findings_path(self) -> str:
        """With the question, threshold and evidence of each."""
        return f"{self.results.folder}/findings.csv"

    @property
    def tables_with_keys(self) -> list[str]:
        """The tables in the text whose numbers numbers.tex has already, by variant or experiment."""
        return [*(view.name for view in self.experiments), "variants"]

    def csv_path(self, table: str) -> str:
        """Where the CSV of a table lies, seen from the project."""
        return f"{self.tables_folder}/{table}.csv"

    def pictures(self, *kinds: str) -> tuple[Picture, ...]:
        """The figures of these kinds that there is data for; without a kind, all."""
        drawn = self._pictures(self.results.figures)
        return tuple(picture for picture in drawn if not kinds or picture.kind in kinds)

    def _pictures(self, figures: "Sequence[FigureSpec]") -> tuple[Picture, ...]:
        return pictures(figures, machine=self.id, csv_path=self.csv_path)

    def first_pictures(self, *kinds: str) -> tuple[Picture, ...]:
        """Of these kinds the figures of the first experiment that has them: those of others would repeat them."""
        subjects: dict[str, str] = {}
        for picture in self.pictures(*kinds):
            subjects.setdefault(picture.kind, picture.subject)
        return tuple(picture for picture in self.pictures(*kinds) if picture.subject == subjects[picture.kind])

    def machine_table(self, *topics: str, name: str, caption: str) -> TableBlock:
        rows = rows_of(self.tables.machine)
        source = self.csv_path("machine")
        block = study_tables.machine_table(rows, topics=topics, name=name, caption=caption, source=source)
        return block.owned_by(self.id)

    def consistency_table(self) -> TableBlock | None:
        """CPU and accelerator side by side; None where there is no pair of them."""
        rows = rows_of(self.tables.consistency)
        if not rows:
            return None
        titles = {str(row["workload"]): titled(row) for row in self.measured}
        block = study_tables.consistency_table(rows, titles=titles, source=self.csv_path("consistency"))
        return block.owned_by(self.id)

    def sources_table(self) -> TableBlock | None:
        """The sources' figures beside its own; None where it measured none of their trainings."""
        block = study_tables.sources_table(rows_of(self.tables.sources), source=self.csv_path("sources"))
        return block and block.owned_by(self.id)

    @cached_property
    def in_order(self) -> list[Row]:
        """The variants with numbers, in the order of the experiments, each once."""
        return first_of_each([row for experiment in self.experiments for row in experiment.measured], "variant")

    @cached_property
    def hardware(self) -> HardwareView:
        """What its devices can do and what they take."""
        return HardwareView(
            machine=self.id,
            tables=self.tables,
            records=self.records,
            measured=self.in_order,
            csv_path=self.csv_path,
        )

    @cached_property
    def trace(self) -> TraceView:
        """What its profiled steps consist of."""
        return TraceView(machine=self.id, tables=self.tables, measured=self.in_order, csv_path=self.csv_path)

    @property
    def untold(self) -> int:
        """How many variants were profiled and have no operations to show, because their traces do not tell them."""
        return len(set(self.tables.step_shares["variant"]) - set(self.tables.top_operations["variant"]))

    def operations_tables(self) -> list[TableBlock]:
        """The longest operations of the first variants shown that have some, in parts that fit a page."""
        found = set(self.tables.top_operations["variant"])
        shown = [row for row in self.trace.shown if row["variant"] in found][:_VARIANTS_WITH_OPERATIONS]
        order = [str(variant["variant"]) for variant in shown]
        longest = [row for row in rows_of(self.tables.top_operations) if row["rank"] <= _OPERATIONS_SHOWN]
        rows = [row for variant in order for row in longest if row["variant"] == variant]
        source = self.csv_path("top_operations")
        return study_tables.operations_table(rows, variants=shown, source=source).owned_by(self.id).pages()

    def answers(self, subject: str, *rules: str) -> list[FindingView]:
        """What these rules, or all, found about a chapter on the whole machine, such as `efficiency`.

        Raises:
            UnknownRuleError: a name is no rule's.
        """
        return answered(self.results.findings, subject, rules)
