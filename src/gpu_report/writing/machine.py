"""All that one machine's records gave, and the facts about it that the text states."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from gpu_report.findings.answers import decisions
from gpu_report.findings.finding import Finding
from gpu_report.findings.scope import experiment_scope
from gpu_report.glossary import SHOWN, Row, device_words
from gpu_report.printing.number_format import duration
from gpu_report.records.record import Record, Telemetry
from gpu_report.study.machine import hardware_words
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.writing.headline import headline
from gpu_report.writing.limits import doubts, limits
from gpu_report.writing.pictures import Picture, pictures
from gpu_report.writing.words import date_words

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec

_MEMORY_KINDS: Final[Mapping[str, str]] = {
    "allocator": "device memory that PyTorch allocated to tensors, not what its allocator reserved",
    "resident set": "resident main memory of the process",
}


@dataclass(frozen=True, kw_only=True)
class MachineResults:
    """What one machine measured; templates call it `machine`. What it is asked for is made when
    asked.
    """

    id: str
    experiments: Sequence[Experiment]
    """Those that the machine has variants of, in the order of the configuration."""
    tables: Tables
    findings: Sequence[Finding]
    figures: "Sequence[FigureSpec]"
    """Each is `figures/<id>/<name>.pdf` in the report's folder."""
    records: Sequence[Record]
    """Of all variants."""
    folder: str
    """Where its results are, seen from the project: what is printed as the source of a number."""
    searching: Sequence[Experiment] = ()
    """Those that searched batch sizes on it."""
    is_imported: bool = False
    """Whether a bundle brought them."""

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
    def in_order(self) -> list[Row]:
        """The variants with numbers, each once, as the first experiment that has it shows it."""
        first: dict[str, Row] = {}
        for experiment in self.experiments:
            for row in self.rows_of(experiment.name):
                first.setdefault(row["variant"], row)
        return [row for row in first.values() if row["status"] == "ok"]

    def rows_of(self, experiment: str) -> Sequence[Row]:
        """The table of an experiment; empty where the machine has no variants of it."""
        return self.tables.rows_of_experiments.get(experiment, ())

    @property
    def has_accelerator(self) -> bool:
        """Whether anything was measured on another device than the CPU."""
        return any(row["device"] != "cpu" for row in self.measured)

    @property
    def shares_gpus(self) -> bool:
        """Whether several GPUs shared a training."""
        return any(row["devices"] > 1 and row["device"] != "cpu" for row in self.measured)

    @property
    def is_calibrated(self) -> bool:
        """Whether its measured peaks are known."""
        return not self.tables.peaks.empty

    @property
    def has_own_loops(self) -> bool:
        """Whether a workload brought a training loop of its own."""
        return any(row["begins_anew"] for row in self.variants)

    @property
    def name(self) -> str:
        """Its hardware as readers name it; its id where no record has it."""
        return hardware_words(record.environment for record in self.records) or self.id

    @cached_property
    def dates(self) -> tuple[str, str]:
        """First and last day of measuring."""
        days = sorted(record.provenance.measured_at[:10] for record in self.records)
        return date_words(days[0]), date_words(days[-1])

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The machine's facts by name, as in its table."""
        return {str(row["name"]): str(row["value"]) for row in rows_of(self.tables.machine)}

    def facts_about(self, *topics: str) -> list[Row]:
        """The rows of the table of facts with these topics."""
        return [row for row in rows_of(self.tables.machine) if row["topic"] in topics]

    @property
    def title_facts(self) -> list[tuple[str, str]]:
        """What the title page says below the machine and the days."""
        software = [("PyTorch", self.facts["PyTorch"])] if "PyTorch" in self.facts else []
        return [
            *software,
            ("Measured", f"{len(self.measured)} of {len(self.variants)} configurations"),
        ]

    @cached_property
    def decisions(self) -> list[Row]:
        """The rows of its decision table."""
        return decisions(
            self.findings,
            {each.name: experiment_scope(self.tables, each).about for each in self.experiments},
            workloads={row["variant"]: row["workload"] for row in self.variants},
            has_gpu=self.has_accelerator,
        )

    @cached_property
    def headline(self) -> tuple[str, str, str]:
        return headline(self.tables, self.findings, self.decisions)

    @cached_property
    def limits(self) -> Mapping[str, list[str]]:
        """What its numbers do not say, by what limits them."""
        return limits(self.variants)

    @property
    def doubts(self) -> list[str]:
        """Where its numbers are not reliable, in the few sentences that the summary has
        room for.
        """
        return doubts(self.variants)

    @property
    def processes(self) -> str:
        """How many processes measured a variant: a number, or two with a range between."""
        return range_words(int(row["processes"]) for row in self.measured)

    @property
    def protocols(self) -> list[Mapping[str, Any]]:
        """By which each record was measured."""
        return [record.measurement["protocol"] for record in self.records]

    @property
    def protocol_versions(self) -> str:
        return " and ".join(sorted({str(protocol["version"]) for protocol in self.protocols}))

    @property
    def profile_steps(self) -> str:
        """How many steps a profiled run recorded of each rank, or was asked for where no trace is
        left.

        That of a custom training loop has one, a whole training.
        """
        own_loops = set(self.tables.own_loops["variant"])
        recorded = [
            row["steps"]
            for row in rows_of(self.tables.step_shares)
            if row["variant"] not in own_loops
        ]
        return range_words(
            recorded or (int(protocol["profile_steps"]) for protocol in self.protocols)
        )

    @property
    def timing(self) -> str:
        """How much each process timed at least; empty where the protocol did not ask for it."""
        epochs = [each["timed_epochs"] for each in self.protocols if each.get("timed_epochs")]
        seconds = [each["timed_seconds"] for each in self.protocols if each.get("timed_seconds")]
        if not (epochs and seconds):
            return ""
        least, most = min(seconds), max(seconds)
        return (
            f"{range_words(epochs)} epochs and "
            f"{least:g}{'' if least == most else f' to {most:g}'} s"
        )

    @property
    def memory_kinds(self) -> str:
        """What kind of memory was measured on which devices, in words."""
        kinds: dict[str, list[str]] = {}
        for row in self.measured:
            kinds.setdefault(str(row["memory_kind"]), []).append(device_words(row["device"]))
        return "; ".join(
            f"{_MEMORY_KINDS.get(kind, kind)} ({', '.join(dict.fromkeys(devices))})"
            for kind, devices in kinds.items()
        )

    @cached_property
    def telemetry(self) -> list[Telemetry]:
        """What the driver reported of each process; empty without an accelerator."""
        return [
            each.telemetry
            for record in self.records
            for each in record.repetitions
            if each.telemetry
        ]

    @property
    def sampling(self) -> str:
        """How often the driver was asked, and what it cost, in words; empty where it was not."""
        if not self.telemetry:
            return ""
        least, most = (
            duration(pick(each.period_s for each in self.telemetry)).plain() for pick in (min, max)
        )
        cost = duration(median(each.sample_cost_ms for each in self.telemetry) / 1000)
        return (
            f"every {least}{'' if least == most else f' to {most}'}; each query took {cost.plain()}"
        )

    @cached_property
    def profiled(self) -> set[str]:
        """The variants whose steps a trace shows."""
        return set(self.tables.step_shares["variant"])

    @cached_property
    def doubted(self) -> set[str]:
        """Those of them whose traces failed a check."""
        return set(self.tables.trace_doubts["variant"])

    @property
    def without_operations(self) -> set[str]:
        """Those whose traces do not show their operations."""
        return self.profiled - set(self.tables.top_operations["variant"])

    @property
    def watched(self) -> list[Row]:
        """The variants whose accelerator's driver reported its power."""
        return [row for row in self.in_order if SHOWN["power"].is_in([row])]

    def csv_path(self, table: str) -> str:
        """Where the CSV of a table is, seen from the project."""
        return f"{self.folder}/tables/{table}.csv"

    @property
    def findings_path(self) -> str:
        """With the question, threshold and evidence of each."""
        return f"{self.folder}/findings.csv"

    @property
    def record_path(self) -> str:
        return f"{self.folder}/runs/<variant>/record.json"

    def log_of(self, variant: str) -> str:
        """Where the traceback of a variant that failed is; empty where a bundle brought its
        record.
        """
        folder = self.folder.partition("/experiments/")[0]
        return "" if self.is_imported else f"{folder}/logs/measure_variant/{variant}.log"

    def pictures(self, *kinds: str, first: bool = False) -> list[Picture]:
        """The figures of these kinds that there is data for.

        `first` leaves of each kind those of the first experiment that has one: those of others
        would repeat them.
        """
        drawn = pictures(self.figures, folder=self.id, csv_path=self.csv_path)
        found = [picture for picture in drawn if picture.figure.kind in kinds]
        subjects: dict[str, str] = {}
        for picture in found:
            subjects.setdefault(picture.figure.kind, picture.figure.subject)
        return [
            picture
            for picture in found
            if not first or picture.figure.subject == subjects[picture.figure.kind]
        ]


def range_words(numbers: Iterable[int]) -> str:
    """The number that all are, or the least and the greatest."""
    found = sorted(set(numbers)) or [0]
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
