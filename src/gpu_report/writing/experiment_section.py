"""One experiment for the template of its section: what it asks, and what each machine measured of it."""

from dataclasses import dataclass
from functools import cached_property

from gpu_report.study import Experiment
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.words import AXES, axis_value_words


@dataclass(frozen=True, kw_only=True)
class ExperimentSection:
    """One experiment of the study; `parts` are its results, one per machine that has variants of it."""

    experiment: Experiment
    parts: tuple[ExperimentView, ...]
    several: bool
    """Whether the report shows several machines, so that each part needs a heading."""
    accelerator_shown: bool
    """Whether any of them has measured on an accelerator."""

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

    @property
    def baseline(self) -> str:
        """What the others are compared with, in words."""
        return axis_value_words(self.experiment.axis, self.experiment.baseline)

    @cached_property
    def values(self) -> list[str]:
        """The values of the axis on any machine, in the order of the study."""
        return list(dict.fromkeys(value for part in self.parts for value in part.values))

    @property
    def watched(self) -> str:
        """A variant to watch with an accelerator's own tools: the first that trained on one; empty without."""
        measured = (row for part in self.parts for row in part.measured if row["device"] != "cpu")
        return next((str(row["variant"]) for row in measured), "")

    @property
    def absence(self) -> str:
        """Why there are no parts, where there are none."""
        if self.accelerator_shown:
            return "No machine that this report shows has measured a variant of this experiment."
        return "This experiment needs an accelerator, and no machine that this report shows has one that was measured."
