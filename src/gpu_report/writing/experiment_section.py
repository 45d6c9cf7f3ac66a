"""One experiment for the template of its section: what it asks, and what was measured of it."""

from dataclasses import dataclass

from gpu_report.glossary import AXES
from gpu_report.study import Experiment
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.words import axis_value_words


@dataclass(frozen=True, kw_only=True)
class ExperimentSection:
    """One experiment of the study; `result` is None where the machine has no variants of it."""

    experiment: Experiment
    result: ExperimentView | None
    has_accelerator: bool
    """Whether anything was measured on an accelerator."""

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

    @property
    def values(self) -> list[str]:
        """The values of the axis, in the order of the study."""
        return self.result.values if self.result else []

    @property
    def watched(self) -> str:
        """A variant to watch with an accelerator's own tools: the first that trained on one; empty without."""
        measured = (row for row in (self.result.measured if self.result else ()) if row["device"] != "cpu")
        return next((str(row["variant"]) for row in measured), "")

    @property
    def absence(self) -> str:
        """Why there is no result, where there is none."""
        if self.has_accelerator:
            return "This machine has measured no variant of this experiment."
        return "This experiment needs an accelerator, and none was measured here."
