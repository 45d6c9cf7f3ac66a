"""What every section may use: the study, its machine, its tables, figures and findings, ready to be printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from gpu_report.findings.finding import STUDY, Finding, recommendations
from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables
from gpu_report.writing import study_tables, workload_tables
from gpu_report.writing.cells import Row
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.finding_view import FindingView
from gpu_report.writing.headline import headline
from gpu_report.writing.limits import limits
from gpu_report.writing.listing import ListingLine, SourceFile, excerpt
from gpu_report.writing.pictures import FigureSpec, Picture, pictures, pictures_of
from gpu_report.writing.rows import first_of_each, rows_of
from gpu_report.writing.summary_table import summary_table
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.tex import Tex
from gpu_report.writing.words import MEMORY_KINDS, device_words, titled

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """The whole study for the templates, where it is called `study`; what it is asked for is made when asked."""

    title: str
    experiment_list: tuple[Experiment, ...]
    tables: Tables
    all_findings: tuple[Finding, ...]
    figure_specs: tuple[FigureSpec, ...]
    records: tuple[Record, ...]
    source: SourceFile

    @property
    def machine(self) -> str:
        """Id of the machine that measured."""
        return self.records[0].machine

    @cached_property
    def variants(self) -> Sequence[Row]:
        return rows_of(self.tables.variants)

    @cached_property
    def measured(self) -> list[Row]:
        """The variants that have numbers."""
        return [row for row in self.variants if row["status"] == "ok"]

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
        return _date_words(days[0]), _date_words(days[-1])

    @cached_property
    def processes(self) -> str:
        """How many processes measured a variant: a number, or two with a range between."""
        counts = sorted({int(row["processes"]) for row in self.measured}) or [0]
        return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The machine's facts by name, as in its table."""
        return {str(row["name"]): str(row["value"]) for row in rows_of(self.tables.machine)}

    @cached_property
    def headline(self) -> tuple[str, str, str]:
        return headline(self.tables, self.all_findings)

    @cached_property
    def experiments(self) -> list[ExperimentView]:
        """The experiments, in the order of the configuration."""
        return [
            ExperimentView(
                experiment=experiment,
                rows=tuple(rows_of(self.tables.experiments[experiment.name])),
                source=self.csv_path(experiment.name),
                figures=pictures_of(experiment.name, self.pictures()),
                all_findings=self.all_findings,
            )
            for experiment in self.experiment_list
        ]

    @cached_property
    def findings(self) -> list[FindingView]:
        return [FindingView(finding=finding) for finding in self.all_findings]

    @property
    def own_findings(self) -> list[FindingView]:
        """The findings about the study as a whole."""
        return [view for view in self.findings if view.finding.experiment == STUDY]

    @cached_property
    def recommendations(self) -> list[FindingView]:
        """The findings that recommend something, the greatest measured gain first."""
        return [FindingView(finding=finding) for finding in recommendations(self.all_findings)]

    @cached_property
    def verdict_counts(self) -> Mapping[str, int]:
        """How many findings have each verdict."""
        verdicts = ("supported", "contradicted", "inconclusive", "not measured")
        return {verdict: sum(finding.verdict == verdict for finding in self.all_findings) for verdict in verdicts}

    @cached_property
    def limits(self) -> list[Tex]:
        """What the study's numbers do not say."""
        return limits(self.variants)

    @property
    def title_facts(self) -> list[tuple[str, str]]:
        """What the title page says of machine and software."""
        wanted = {"Accelerator": "accelerator", "CPU": "CPU", "Cores": "CPU cores", "PyTorch": "PyTorch"}
        found = [(label, self.facts[name]) for label, name in wanted.items() if name in self.facts]
        return [*found, ("Variants", f"{len(self.measured)} measured of {len(self.variants)}")]

    @cached_property
    def profile_steps(self) -> str:
        """How many steps a profiled run recorded."""
        counts = {str(record.measurement["protocol"]["profile_steps"]) for record in self.records}
        return " or ".join(sorted(counts))

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
    def decided(self) -> list[FindingView]:
        """The first finding of each experiment that says yes or no."""
        names = [experiment.name for experiment in self.experiment_list]
        decided = [view for view in self.findings if view.is_decided]
        first = [next((view for view in decided if view.finding.experiment == name), None) for name in names]
        return [view for view in first if view]

    @cached_property
    def verdict_phrase(self) -> str:
        """How many findings have which verdict: `28 are supported, 2 are contradicted`."""
        counts = self.verdict_counts.items()
        return ", ".join(f"{number} {'is' if number == 1 else 'are'} {verdict}" for verdict, number in counts if number)

    @property
    def unmeasured(self) -> list[Row]:
        """The variants without numbers; each row has the reason."""
        return [row for row in self.variants if row["status"] != "ok"]

    @property
    def tables_folder(self) -> str:
        return f"results/machines/{self.machine}/tables"

    @property
    def record_path(self) -> str:
        return f"results/machines/{self.machine}/runs/<variant>/record.json"

    @cached_property
    def models(self) -> list[Mapping[str, Any]]:
        """What the workloads said of themselves, one per workload."""
        return workload_tables.workload_facts(self.records)

    def csv_path(self, table: str) -> str:
        """Where the CSV of a table lies, seen from the project."""
        return f"{self.tables_folder}/{table}.csv"

    def pictures(self, *kinds: str) -> tuple[Picture, ...]:
        """The figures of these kinds that there is data for; without a kind, all."""
        drawn = pictures(self.figure_specs, self.csv_path)
        return tuple(picture for picture in drawn if not kinds or picture.kind in kinds)

    def listing(self, *functions: str) -> list[list[ListingLine]]:
        """The lines of these functions of the training loop's source file."""
        return excerpt(self.source, functions)

    def summary_table(self) -> TableBlock:
        return summary_table(self.experiments)

    def machine_table(self, *topics: str, name: str, caption: str) -> TableBlock:
        rows = rows_of(self.tables.machine)
        source = self.csv_path("machine")
        return study_tables.machine_table(rows, topics=topics, name=name, caption=caption, source=source)

    def workload_table(self) -> TableBlock:
        return workload_tables.workload_table(self.records)

    def configuration_table(self) -> TableBlock:
        return workload_tables.configuration_table(self.records)

    def learning_table(self) -> TableBlock:
        convergence = rows_of(self.tables.convergence)
        return study_tables.learning_table(self.measured, convergence, source=self.csv_path("convergence"))

    def consistency_table(self) -> TableBlock | None:
        """CPU and accelerator side by side; None where there is no pair of them."""
        rows = rows_of(self.tables.consistency)
        titles = {str(row["workload"]): titled(row) for row in self.measured}
        return (
            study_tables.consistency_table(rows, titles=titles, source=self.csv_path("consistency")) if rows else None
        )

    @cached_property
    def profiled(self) -> list[Row]:
        """One variant for each workload and device that was profiled: the first in the order of the study."""
        found = set(self.tables.top_operations["variant"])
        in_order = [row for experiment in self.experiments for row in experiment.measured]
        profiled = [row for row in in_order if row["variant"] in found]
        return first_of_each(profiled, "workload", "device")

    def operations_tables(self) -> list[TableBlock]:
        rows = rows_of(self.tables.top_operations)
        return [
            study_tables.operations_table(
                [row for row in rows if row["variant"] == variant["variant"]],
                variant=variant,
                source=self.csv_path("top_operations"),
            )
            for variant in self.profiled
        ]

    def category_table(self) -> TableBlock:
        shown = {variant["variant"] for variant in self.profiled}
        rows = [row for row in rows_of(self.tables.category_shares) if row["variant"] in shown]
        return study_tables.category_table(rows, self.profiled, source=self.csv_path("category_shares"))

    def status_table(self) -> TableBlock:
        return study_tables.status_table(self.variants, source=self.csv_path("variants"))

    def figures_table(self) -> TableBlock:
        return study_tables.figures_table(self.variants, source=self.csv_path("variants"))


def _date_words(day: str) -> str:
    """`4 May 2026` for 2026-05-04."""
    year, month, number = day.split("-")
    return f"{int(number)} {_MONTHS[int(month) - 1]} {year}"
