"""One experiment of the study for the template of its section: what it asks, and what the machine
measured of it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gpu_report.answers.estimate import falls, gain_over
from gpu_report.answers.scope import search_scope
from gpu_report.figures.labels import beside_ladder
from gpu_report.glossary import AXES, METRICS, SHOWN, Row, capitalized, device_words
from gpu_report.printing.number_format import NOT_MEASURED, quantity
from gpu_report.study.options import option_names
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.tables.marks import SEPARATOR, UNKNOWN_SPREAD, marks_in
from gpu_report.words import (
    DISTINGUISHING,
    constants,
    distinguishing,
    flags_but_projected,
    flags_of,
    in_words,
    listed,
    model_cell,
    part_words,
    title_cell,
    value_words,
    varying,
    why_missing,
)
from gpu_report.writing.cards import notes_on_precision
from gpu_report.writing.layout import figures_of
from gpu_report.writing.machine import MachineResults, range_words
from gpu_report.writing.table import TableBlock, Text, metric, table

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec

_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    "workload": ("parameters", "step_time", "throughput", "memory", "quality"),
    "size": ("parameters", "step_time", "throughput", "speedup", "memory", "quality"),
    "device": ("step_time", "throughput", "speedup", "fastest_cpu_speedup", "memory", "quality"),
    "batch_size": ("step_time", "throughput", "epoch_time", "speedup", "memory", "quality"),
    "workers": ("step_time", "throughput", "data_wait", "speedup", "quality"),
    "precision": ("step_time", "throughput", "speedup", "memory", "quality"),
    "optimization": (
        "step_time",
        "throughput",
        "speedup",
        "memory",
        "quality",
        "preparation_cold",
        "break_even",
    ),
    "parallelism": ("step_time", "throughput", "speedup", "memory", "quality"),
}
"""What a table shows of an experiment on this axis, where nothing else is asked for."""

_NUMBERS: Final = ("batch_size", "workers", "epochs", "seed")
_UNSAID: Final = {
    "size": "default",
    "seed": "0",
    "steps_per_epoch": "whole",
    "accumulation": "1",
    "options": "none",
    "parallelism": "one process",
}


@dataclass(frozen=True, kw_only=True)
class ExperimentResults:
    """One experiment on one machine; without rows where the machine has no variants of it."""

    experiment: Experiment
    machine: MachineResults

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def question(self) -> str:
        return self.experiment.question

    @property
    def title(self) -> str:
        """The name as a heading, where a template has no better one."""
        return self.name.replace("_", " ").capitalize()

    @property
    def axis(self) -> str:
        """What is varied, in words."""
        return AXES.get(self.experiment.axis, self.experiment.axis)

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Those of its table, in the order of the study; of one that searches, every number of
        samples tried.
        """
        if self.experiment.is_search:
            return search_scope(self.machine.tables, self.experiment).rows
        return self.machine.rows_of(self.name)

    @cached_property
    def measured(self) -> list[Row]:
        """The rows that have numbers."""
        return [row for row in self.rows if row["status"] == "ok"]

    @property
    def baseline(self) -> str:
        """What the others are compared with, in words."""
        axis = self.experiment.axis
        models = [
            model_cell(row)
            for row in self.rows
            if axis == "workload" and row[axis] == self.experiment.baseline
        ]
        return models[0] if models else in_words(axis, self.experiment.baseline)

    @property
    def values(self) -> list[str]:
        """The values of the axis, in the order of the study."""
        axis = self.experiment.axis
        words = [
            model_cell(row) if axis == "workload" else value_words(axis, row[axis])
            for row in self.rows
        ]
        return list(dict.fromkeys(words))

    @property
    def trained(self) -> list[str]:
        """What its variants train, each workload once, as in a sentence."""
        return list(dict.fromkeys(str(row["workload_title"]) for row in self.rows))

    @property
    def pictures(self) -> "list[FigureSpec]":
        """The figures of its section."""
        return figures_of(self.name, self.machine.drawn)

    @property
    def metrics(self) -> list[str]:
        """Keys of those that suit its axis; a table leaves out what no row has."""
        return [*self.rates(*_METRICS[self.experiment.axis]), "time_to_target"]

    def rates(self, *keys: str) -> list[str]:
        """These keys, where all rows train on tokens with tokens per second and MFU in place of
        samples per second.
        """
        on_tokens = self.measured and all(SHOWN["tokens"].is_in([row]) for row in self.measured)
        rate = ("tokens", "mfu") if on_tokens else ("throughput",)
        return [each for key in keys for each in (rate if key == "throughput" else (key,))]

    def table(self, keys: Sequence[str]) -> list[TableBlock]:
        """Its table with the metrics of these keys.

        Raises:
            ReportError: no metric has one of the keys.
        """
        is_comparable = any(
            not row["is_baseline"] and SHOWN["speedup"].is_in([row]) for row in self.measured
        )
        shown = [
            metric(key) for key in keys if key not in ("speedup", "time_reduction") or is_comparable
        ]
        qualities = list(dict.fromkeys(row["quality_name"] for row in self.measured))
        if len(qualities) == 1:
            shown = [
                replace(each, header=qualities[0]) if each is SHOWN["quality"] else each
                for each in shown
            ]
        off_ladder = self._off_ladder
        rows = [row for row in self.rows if row["variant"] not in off_ladder]
        groups = list(dict.fromkeys(row["group"] for row in rows))
        trained = capitalized(listed(self.trained)) if self.rows else "Results"
        caption = f"{trained} by {self.axis}.{self.fixed}"
        notes = []
        if "step_time" in keys and self.experiment.axis == "workers":
            notes.append(
                "The step time is a median: the few steps that wait long for data lower only "
                "the throughput."
            )
        if "quality" in keys:
            notes += self.quality_notes
        if "time_to_target" in keys and self.experiment.target is not None:
            notes.append(
                f"The target is a held-out quality of {self.experiment.target:g}, in every process."
            )
        if "speedup" in keys and is_comparable:
            notes.append(f"The baseline is {self.baseline}.")
        notes += notes_on_precision(self.machine.tables, self.measured)
        if off_ladder:
            notes.append(
                "The figure shows the speedup of each option alone and of the ladder without each "
                "option; the CSV file has their other numbers."
            )
        return table(
            sorted(rows, key=lambda row: groups.index(row["group"])),
            name=f"{self.machine.id}/{self.name}",
            caption=caption,
            columns=[*self._texts(), *shown],
            group="group",
            heading=self._heading,
            instead=why_missing,
            flags=flags_of if "epoch_time" in keys else flags_but_projected,
            notes=notes,
            source=self.machine.csv_path(self.name),
        )

    @property
    def _off_ladder(self) -> set[str]:
        """The variants of an option alone, and of a ladder without one option, where a figure has
        their speedups.
        """
        if all(picture.kind != "ladder" for picture in self.pictures):
            return set()
        found = set()
        for rows in grouped(self.rows, lambda row: row["group"]).values():
            apart = beside_ladder([row["optimization"] for row in rows])
            found |= {
                row["variant"]
                for row in rows
                if row["optimization"] in apart and row["speedup"] > 0
            }
        return found

    @property
    def quality_notes(self) -> list[str]:
        """Which metric each model has, which way it gets better, and what is not that of a finished
        training.
        """
        notes = []
        named = grouped(self.measured, lambda row: row["quality_name"])
        if len(named) > 1:
            metrics = "; ".join(
                f"{name or NOT_MEASURED} for {', '.join(dict.fromkeys(map(title_cell, rows)))}"
                for name, rows in named.items()
            )
            notes.append(f"The held-out metric is {metrics}.")
        if falling := [name for name, rows in named.items() if any(map(falls, rows))]:
            notes.append(f"A lower {listed(falling)} is better.")
        return notes + notes_on_short_trainings(self.measured)

    def _texts(self) -> list[Text]:
        axis = self.experiment.axis
        if self._has_headings:
            return [axis_column(axis)]
        known = (
            list(dict.fromkeys(["workload", axis])) if varying(["workload"], self.rows) else [axis]
        )
        distinguished = distinguishing_columns(self._other_axes, self.rows, beside=known)
        return [*map(axis_column, known[:-1]), *distinguished, axis_column(axis)]

    def _heading(self, row: Row) -> str:
        """The model that rows train, with its precision where models differ in it."""
        varies = "precision" in self._other_axes and varying(["precision"], self.rows)
        precision = f", {row['precision']}" if varies else ""
        return f"{model_cell(row)}{precision}" if self._has_headings else ""

    @property
    def _has_headings(self) -> bool:
        """Whether rows are below the model that they train, to leave room for long names of what is
        varied.
        """
        return self.experiment.axis == "optimization" and bool(varying(["workload"], self.rows))

    @property
    def _other_axes(self) -> list[str]:
        varied = (self.experiment.axis, *self.experiment.compared_fields)
        return [axis for axis in DISTINGUISHING if axis not in varied]

    @property
    def mfu_notes(self) -> list[str]:
        """What the MFU of its rows rests on, and what the fastest reaches of the measured peak."""
        rows = [row for row in self.measured if math.isfinite(row["mfu"])]
        if not rows:
            return []
        fastest = max(rows, key=lambda row: float(row["throughput_per_s"]))
        eager = {"counted": "the operations of an eager step, as counted"}
        source = eager.get(str(fastest["flops_source"]), fastest["flops_source"])
        return [
            f"Operations per token: {source}.",
            *(
                "The fastest configuration reaches "
                f"{METRICS['share_of_peak'].quantity(row).plain()} of the rate of matrix products "
                "that was measured on this machine."
                for row in rows_of(self.machine.tables.efficiency)
                if row["variant"] == fastest["variant"]
            ),
        ]

    def beside(self, *names: str) -> list[Row]:
        """Its rows, each with the numbers that other tables have of the same variant, missing where
        they have none.
        """
        rows = [*self.rows]
        for others in (getattr(self.machine.tables, name) for name in names):
            found = {row["variant"]: row for row in rows_of(others)}
            nothing = {str(column): math.nan for column in others.columns}
            rows = [{**nothing, **found.get(row["variant"], {}), **row} for row in rows]
        return rows

    @property
    def settings(self) -> list[Row]:
        """Its rows beside their communication and scaling. The speedup of what lacks an option of
        the baseline and adds another is over the row that only lacks it, where there is one, and a
        flag says so.
        """
        rows = self.beside("communication", "scaling_efficiency")
        defaults = {*option_names(str(self.experiment.baseline))}
        options = [{*option_names(row["optimization"])} for row in rows]
        lacking = {
            (row["group"], *sorted(names)): row
            for row, names in zip(rows, options, strict=True)
            if names < defaults and row["status"] == "ok"
        }
        for at, names in enumerate(options):
            other = lacking.get((rows[at]["group"], *sorted(names & defaults)))
            if other and names - defaults and rows[at]["status"] == "ok":
                rows[at] = {**rows[at], **self._over(rows[at], other)}
        return rows

    def _over(self, row: Row, other: Row) -> Row:
        gain = gain_over(self.machine.tables, row, other)
        flags = {
            "other session": gain.is_of_two_sessions,
            UNKNOWN_SPREAD: UNKNOWN_SPREAD in gain.doubts,
        }
        marks = [
            *(mark for mark in marks_in(row["marks"]) if mark not in flags),
            *(flag for flag, is_set in flags.items() if is_set),
            f"the speedup is over the row {self.setting(other)}",
        ]
        return {**gain.as_columns("speedup"), "marks": SEPARATOR.join(marks)}

    def setting(self, row: Row) -> str:
        """What an optimization adds to the baseline and what it lacks of it, in words; `defaults`
        for the baseline.
        """
        here, baseline = (
            option_names(str(name)) for name in (row["optimization"], self.experiment.baseline)
        )
        added = [part_words(name) for name in here if name not in baseline]
        lacking = [part_words(name) for name in baseline if name not in here]
        if not lacking:
            return listed(added or ["defaults"])
        return " ".join([*([listed(added)] if added else []), "without", listed(lacking)])

    @property
    def micro_batches(self) -> list[Row]:
        """Its rows with what splitting the model gained, of one model and batch pipelines last."""
        rows = self.beside("model_splits")
        headings = list(dict.fromkeys(map(self.model_and_batch, rows)))
        return sorted(
            rows,
            key=lambda row: (
                headings.index(self.model_and_batch(row)),
                row["strategy"] == "pipeline",
            ),
        )

    def model_and_batch(self, row: Row) -> str:
        """What a row trains: `U-Net 128px`, with the batch size and the options where rows differ
        in them.
        """
        differing = [
            axis
            for axis in varying(("batch_size", "options"), self.rows)
            if row[axis] != _UNSAID.get(axis)
        ]
        return ", ".join([model_cell(row), *(in_words(axis, row[axis]) for axis in differing)])

    @cached_property
    def loops(self) -> list[Row]:
        """Its rows that a custom training loop trained, with what the table of loops says
        of each.
        """
        return [row for row in self.beside("own_loops") if row["passes"] > 0]

    @property
    def fixed(self) -> str:
        """The end of a caption: what is the same in all rows and not varied; empty where nothing
        is.
        """
        fixed = constants(self._other_axes, self.rows, unsaid=_UNSAID)
        return f" The same in all rows: {fixed}." if fixed else ""

    @property
    def without_floor(self) -> list[str]:
        """Which devices have no bound, where others have one."""
        known = {row["device"] for row in self.loops if not math.isnan(row["floor_us"])}
        unknown = [
            device_words(device) for device in sorted({row["device"] for row in self.loops} - known)
        ]
        if not known or not unknown:
            return []
        return [
            f"No bound is known on {', '.join(unknown)}: not calibrated, or the work of an "
            "iteration was not counted."
        ]

    def loop_heading(self, row: Row) -> str:
        """The device that rows ran on, where there are several."""
        return device_words(row["device"]) if varying(["device"], self.rows) else ""

    def of_loops(self, column: str) -> str:
        """A number of its loops in words; the least and the most where they differ."""
        return range_words(row[column] for row in self.loops)


def notes_on_short_trainings(rows: Sequence[Row]) -> list[str]:
    """After how few steps the quality of models was measured, a sentence about those whose epochs
    are shortened, and one about those that are no better than chance.
    """
    by_chance = [
        row
        for row in rows
        if (row["quality"] - row["quality_chance"]) * (-1 if falls(row) else 1) <= 0
    ]
    short = [
        row
        for row in rows
        if row not in by_chance and row["epoch_time_projected"] and math.isfinite(row["quality"])
    ]
    return [
        f"After {range_words(int(row['optimizer_steps']) for row in some)} optimizer steps, the "
        f"held-out metric of {listed(list(dict.fromkeys(map(named, some))))} is {what}."
        for what, some, named in (
            ("no better than chance yet", by_chance, _with_chance),
            ("not that of a finished training", short, title_cell),
        )
        if some
    ]


def _with_chance(row: Row) -> str:
    return f"{title_cell(row)} (chance: {quantity(row['quality_chance']).plain()})"


def axis_column(axis: str) -> Text:
    """The column of a field of a variant."""
    if axis == "workload":
        return Text(AXES[axis], title_cell)
    if axis == "optimization":
        return Text(AXES[axis], axis, width=0.25, longest=100)
    return Text(AXES[axis], lambda row: value_words(axis, row[axis]), is_number=axis in _NUMBERS)


def distinguishing_columns(
    axes: Sequence[str], rows: Sequence[Row], *, beside: Sequence[str]
) -> list[Text]:
    """The columns of those of these fields that distinguish rows which the fields `beside`
    do not.
    """
    return [axis_column(axis) for axis in distinguishing(axes, rows, beside=beside)]
