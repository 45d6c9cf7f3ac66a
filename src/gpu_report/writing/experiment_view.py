"""What one machine measured of an experiment: its table, its findings, figures and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from gpu_report.findings.finding import Finding
from gpu_report.glossary import AXES, SHOWN, Row
from gpu_report.study import Experiment
from gpu_report.variant import AXIS_FIELDS
from gpu_report.writing.cells import UnknownMetricError
from gpu_report.writing.fields import Field, text_field
from gpu_report.writing.finding_view import FindingView, answered
from gpu_report.writing.loops_view import LoopsView
from gpu_report.writing.pictures import Picture
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import Tex, escape
from gpu_report.writing.words import (
    axis_value_words,
    constants,
    device_words,
    marks_of,
    model_words,
    telling,
    titled,
    value_words,
    varying,
    why_missing,
)

_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    "workload": ("parameters", "step_time", "throughput", "memory", "quality"),
    "size": ("parameters", "step_time", "throughput", "speedup", "memory", "quality"),
    "device": ("step_time", "throughput", "speedup", "memory", "quality"),
    "batch_size": ("step_time", "throughput", "epoch_time", "speedup", "memory", "quality"),
    "workers": ("step_time", "throughput", "data_wait", "speedup", "quality"),
    "precision": ("step_time", "throughput", "speedup", "memory", "quality"),
    "optimization": ("step_time", "throughput", "speedup", "memory", "quality", "preparation", "break_even"),
}
"""What a table shows of an experiment on this axis, where nothing else is asked for."""

_SHOWN_AXES: Final = (
    *("size", "device", "batch_size", "accumulation", "workers", "precision", "options"),
    *("epochs", "steps_per_epoch", "seed"),
)
_LONGEST_RUNG: Final = 24
_UNSAID: Final = {"size": "default", "seed": "0", "steps_per_epoch": "whole", "accumulation": "1", "options": "none"}


@dataclass(frozen=True, kw_only=True)
class ExperimentView:
    """One experiment on one machine; `rows` are those of its table, `source` is the CSV behind it."""

    experiment: Experiment
    machine: str
    rows: tuple[Row, ...]
    source: str
    figures: tuple[Picture, ...]
    all_findings: tuple[Finding, ...]
    loops: LoopsView
    """What its workload's own loops took and learnt; empty where there are none."""

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def label(self) -> str:
        """What its labels begin with: no other machine's are the same."""
        return f"{self.machine}/{self.name}"

    @property
    def axis(self) -> str:
        """What is varied, in words."""
        return AXES.get(self.experiment.axis, self.experiment.axis)

    @property
    def baseline(self) -> str:
        """What the others are compared with, in words."""
        axis = self.experiment.axis
        models = [model_words(row) for row in self.rows if axis == "workload" and row[axis] == self.experiment.baseline]
        return models[0] if models else axis_value_words(axis, self.experiment.baseline)

    @cached_property
    def values(self) -> list[str]:
        """The values of the axis, in the order of the study."""
        if self.experiment.axis == "workload":
            return list(dict.fromkeys(model_words(row) for row in self.rows))
        return list(dict.fromkeys(value_words(self.experiment.axis, row[self.experiment.axis]) for row in self.rows))

    @cached_property
    def measured(self) -> list[Row]:
        """The rows that have numbers."""
        return [row for row in self.rows if row["status"] == "ok"]

    @property
    def is_comparable(self) -> bool:
        """Whether any variant was measured that has a baseline to be compared with."""
        return any(not row["is_baseline"] and SHOWN["speedup"].is_in([row]) for row in self.measured)

    @cached_property
    def groups(self) -> list[list[Row]]:
        """The rows by group, in the order of the study."""
        names = dict.fromkeys(row["group"] for row in self.rows)
        return [[row for row in self.rows if row["group"] == name] for name in names]

    def answers(self, *rules: str) -> list[FindingView]:
        """What these rules found, all of them without any named, in the order in which it was derived.

        Raises:
            UnknownRuleError: a name is no rule's.
        """
        return answered(self.all_findings, self.name, rules)

    @property
    def metrics(self) -> list[str]:
        """Keys of those that suit its axis; a table leaves out what no row has."""
        return [*_METRICS[self.experiment.axis], "time_to_target"]

    @property
    def trained(self) -> list[str]:
        """What its variants train, each workload once, as in a sentence."""
        return list(dict.fromkeys(str(row["workload_title"]) for row in self.rows))

    def table(self, *keys: str) -> TableBlock:
        """Its table with these metrics, see glossary.SHOWN; without any, those that suit its axis.

        Raises:
            UnknownMetricError: there is no metric of that key.
        """
        shown = [key for key in keys or self.metrics if key not in ("speedup", "time_reduction") or self.is_comparable]
        unknown = [key for key in shown if key not in SHOWN]
        if unknown:
            raise UnknownMetricError(f"there is no metric {unknown[0]!r}; use one of {', '.join(SHOWN)}")
        qualities = dict.fromkeys(row["quality_name"] for row in self.measured)
        single_quality = next(iter(qualities)) if len(qualities) == 1 else ""
        return lay_out(
            [row for group in self.groups for row in group],
            name=self.label,
            caption=self._caption(shown),
            title=escape(f"{self.name.replace('_', ' ').capitalize()} on {self.machine}"),
            fields=self._fields(),
            metrics=[SHOWN[key] for key in shown],
            headers={"quality": single_quality or "quality"},
            group=lambda row: row["group"],
            heading=self._heading,
            missing=why_missing,
            marks=lambda row: [mark for mark in marks_of(row) if mark != "projected" or "epoch_time" in shown],
            notes=self._notes(shown, list(qualities)),
            source=self.source,
        )

    def _fields(self) -> list[Field]:
        axis = self.experiment.axis
        known = list(dict.fromkeys(["workload", axis])) if varying(["workload"], self.rows) else [axis]
        if self._has_headings:
            return [_axis_field(axis)]
        shown = [*known[:-1], *telling(self._other_axes, self.rows, beside=known), axis]
        return [_axis_field(name) for name in shown]

    def _heading(self, row: Row) -> str:
        """The model that rows train, with its precision where models differ in it."""
        precision = f", {row['precision']}" if varying(["precision"], self.rows) else ""
        return f"{model_words(row)}{precision}" if self._has_headings else ""

    @property
    def _has_headings(self) -> bool:
        """Whether rows stand below the model that they train, to leave room for long names of what is varied."""
        return self.experiment.axis == "optimization" and bool(varying(["workload"], self.rows))

    @property
    def _other_axes(self) -> list[str]:
        """The fields of a variant that are not what is varied."""
        varied = (self.experiment.axis, *AXIS_FIELDS.get(self.experiment.axis, ()))
        return [axis for axis in _SHOWN_AXES if axis not in varied]

    def _caption(self, shown: Sequence[str]) -> Tex:
        meanings = [SHOWN[key].meaning for key in shown if SHOWN[key].is_in(self.measured)]
        named = "" if varying(["workload"], self.rows) or not self.rows else f"{titled(self.rows[0])}: "
        fixed = constants(self._other_axes, self.rows, unsaid=_UNSAID)
        text = f"{named}{_listed(meanings)} by {self.axis}." if meanings else f"{named}nothing was measured."
        return escape(text[:1].upper() + text[1:] + (f" The same in all rows: {fixed}." if fixed else ""))

    def _notes(self, shown: Sequence[str], qualities: Sequence[str]) -> list[Tex]:
        notes = []
        if "quality" in shown and len(qualities) > 1:
            by_name: Mapping[str, list[str]] = {
                name: list(dict.fromkeys(titled(row) for row in self.measured if row["quality_name"] == name))
                for name in qualities
            }
            told = "; ".join(f"{name} for {', '.join(titles)}" for name, titles in by_name.items())
            notes.append(escape(f"Quality is {told}."))
        if "time_to_target" in shown and self.experiment.target is not None:
            notes.append(escape(f"The target is a held-out quality of {self.experiment.target:g}, in every process."))
        if "speedup" in shown:
            notes.append(escape(f"The baseline is {self.baseline}."))
        return notes


def _axis_field(axis: str) -> Field:
    if axis == "workload":
        return Field(header=AXES[axis], text=titled)
    if axis == "optimization":
        return text_field(AXES[axis], axis, longest=100, parts_at=_LONGEST_RUNG)

    def text(row: Row) -> str:
        return device_words(row["device"]) if axis == "device" else value_words(axis, row[axis])

    return Field(header=AXES[axis], text=text, is_number=axis in ("batch_size", "workers", "epochs", "seed"))


def _listed(words: Sequence[Any]) -> str:
    *first, last = [str(word) for word in words]
    return f"{', '.join(first)} and {last}" if first else last
