"""A machine's folder of results: the study that its stages read, the one that its tables are of,
and where its records, tables and findings are.

study.json (ResolvedStudy) -> ResultsFolder, the machine's or that of one experiment alone ->
records, traces, tables

study.json is what Snakemake was asked for last, which may be one experiment of another study;
tables/study.json is the study of the tables and findings.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gpu_report.errors import ConfigError
from gpu_report.printing.terminal import say
from gpu_report.records.batch_sizes import SEARCH_FILE, SEARCHES_FOLDER, SearchRecord
from gpu_report.records.record import RECORD_FILE, Record, with_distinct_titles
from gpu_report.storage.files import write_errors, write_text_atomically
from gpu_report.storage.json_files import JsonFile, Part
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from gpu_report.tables.marks import Today
from gpu_report.traces.tables import TraceTables, read_trace_tables

BUDGETED: Final = "budgeted"
"""The file in a machine's folder of results that says that a time budget has left out processes."""


class ResolvedStudy(Part):
    """The study as one machine is asked for it; Snakemake writes it before any job runs, and all
    stages read it.
    """

    schema_version: int = 1
    machine: str
    study: Study
    today: Today

    @classmethod
    def of(cls, machine: str, study: Study) -> "ResolvedStudy":
        """The study of the machine with this id, and the code that would measure it now."""
        return cls(
            machine=machine,
            study=study,
            today=Today.of(study, [variant.slug for variant in study.variants]),
        )

    @property
    def digest(self) -> str:
        """SHA-256 of all of it: a stage whose study has another digest runs again."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write it into the folder of the machine's results, or into that of its tables.

        Raises:
            FileWriteError: the folder cannot be written.
        """
        write_text_atomically(folder / "study.json", self.model_dump_json(indent=1) + "\n")


STUDY_FILE: Final = JsonFile(
    name="study file",
    content=ResolvedStudy,
    version=1,
    error=ConfigError,
    again="snakemake writes it before its first job, unless it runs with --no-hooks",
)


def study_of_tables(machine_folder: Path) -> Path:
    """The file with the study that a machine's tables and findings are of; where an older version
    wrote them, that of what was asked for last.
    """
    file = machine_folder / "tables/study.json"
    return file if file.exists() else machine_folder / "study.json"


@dataclass(frozen=True, kw_only=True)
class ResultsFolder:
    """The results of one machine; tables and findings of an experiment alone are in a folder of
    their own.
    """

    resolved: ResolvedStudy
    machine_folder: Path
    experiment: str = ""

    @classmethod
    def of(cls, study_file: Path, *, experiment: str = "") -> "ResultsFolder":
        """The folder that this study.json is in.

        Raises:
            ConfigError: the file cannot be read, or the machine has no variant of the experiment.
        """
        resolved = STUDY_FILE.read(study_file)
        if experiment:
            resolved = resolved.model_copy(update={"study": resolved.study.alone(experiment)})
        return cls(resolved=resolved, machine_folder=study_file.parent, experiment=experiment)

    @classmethod
    def tabulated(cls, machine_folder: Path) -> "ResultsFolder":
        """The folder of a machine with the study that its tables and findings are of.

        Raises:
            ConfigError: no file says which, or it cannot be read.
        """
        resolved = STUDY_FILE.read(study_of_tables(machine_folder))
        return cls(resolved=resolved, machine_folder=machine_folder)

    @property
    def study(self) -> Study:
        """That of the machine, or of the experiment alone."""
        return self.resolved.study

    @property
    def folder(self) -> Path:
        """Where tables and findings of this study are."""
        return (
            self.machine_folder / "experiments" / self.experiment
            if self.experiment
            else self.machine_folder
        )

    @property
    def calibration_file(self) -> Path:
        return self.machine_folder / "calibration.json"

    def record_file(self, slug: str) -> Path:
        """The record of a variant; its traces and trace tables are in folders beside it."""
        return self.machine_folder / "runs" / slug / "record.json"

    def search_file(self, slug: str) -> Path:
        """The record of a batch-size search."""
        return self.machine_folder / SEARCHES_FOLDER / f"{slug}.json"

    def read_searches(self) -> list[SearchRecord]:
        """The records of the study's batch-size searches, in its order."""
        return [SEARCH_FILE.read(self.search_file(search.slug)) for search in self.study.searches]

    def read_records(self) -> list[Record]:
        """The records of the study's variants, in its order, no two workloads with one title."""
        return with_distinct_titles(
            [RECORD_FILE.read(self.record_file(variant.slug)) for variant in self.study.variants]
        )

    def read_trace_tables(self) -> dict[str, TraceTables]:
        """The trace tables of the study's variants by name."""
        folders = {
            variant.slug: self.record_file(variant.slug).parent for variant in self.study.variants
        }
        return {
            slug: read_trace_tables(folder / "trace_tables") for slug, folder in folders.items()
        }

    def read_tables(self) -> Tables:
        """Every table of the study, with those of the experiments that the machine has
        variants of.
        """
        from gpu_report.tables import STUDY_TABLES
        from gpu_report.tables.experiments import EXPERIMENT

        tables, experiments = self.folder / "tables", self.study.experiments_with_variants
        return Tables(
            by_name={
                table.name: partial(table.read_csv, tables / f"{table.name}.csv")
                for table in STUDY_TABLES
            },
            experiments={
                each.name: EXPERIMENT.read_csv(tables / f"{each.name}.csv") for each in experiments
            },
        )


def keep_document_of_another(document: Path, about: str) -> None:
    """Rename an existing report that is about another study or machine than the one that replaces
    it.

    Raises:
        FileWriteError: the folder cannot be written.
    """
    note = document.with_name(f".{document.name}.about")
    before = note.read_text("utf-8") if note.exists() else about
    if before != about and document.exists():
        kept = document.with_stem(f"{document.stem}-{before}")
        with write_errors(kept):
            document.replace(kept)
        say(f"{document} is about {before}; it is now {kept}")
    write_text_atomically(note, about)
