"""Which networks can be drawn from what the records say, and how to draw each.

records -> ArchitectureSpec (name, what to see, the networks) -> Figure
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.figure import Figure

from gpu_report.figures.architecture.chain import draw_chain
from gpu_report.figures.architecture.lstm import draw_lstm
from gpu_report.figures.architecture.models import LSTM, Chain, Model, UNet, model_of
from gpu_report.figures.architecture.unet import draw_unet
from gpu_report.figures.kind import Subject
from gpu_report.figures.style import report_style
from gpu_report.number_format import count
from gpu_report.records import Record

KIND: Final = "architecture"


@dataclass(frozen=True, kw_only=True)
class ArchitectureSpec:
    """The picture of a workload's network, in each of the sizes that were measured."""

    workload: str
    workload_title: str
    models: Mapping[str, Model]
    """By the size's name, in the order of the records."""

    @property
    def name(self) -> str:
        return f"{KIND}_{self.workload}"

    @property
    def subject(self) -> Subject:
        return Subject(name=self.workload, axis="", baseline="")

    @property
    def kind(self) -> str:
        return KIND

    @property
    def title(self) -> str:
        return f"Architecture of the {self.workload_title}"

    @property
    def caption(self) -> str:
        return f"{self.title}. {_what_to_see(self)}"

    @property
    def alt(self) -> str:
        """The same in words: what follows what, with the sizes that come out."""
        model = next(iter(self.models.values()))
        path = ", ".join(f"{_on_one_line(stage.name)} {stage.output}" for stage in model.stages)
        return f"The {self.workload_title} as boxes from its input to its scores: {path}."

    @property
    def layers_csv(self) -> str:
        """The stages of the networks as CSV: what each gives, and its parameters."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["size", "stage", "channels", "length", "parameters"])
        for size, model in self.models.items():
            for stage in model.stages:
                writer.writerow([size, _on_one_line(stage.name), stage.channels, stage.length, stage.parameters])
        return text.getvalue()


def architectures(records: Sequence[Record]) -> list[ArchitectureSpec]:
    """One picture for each workload whose network is known here, in the order of the records.

    A workload of the user's own has none, nor has one whose parameters are not those of the network known here. Sizes
    that differ in the picture alone are drawn with the largest.
    """
    found: dict[tuple[str, str], dict[str, Model]] = {}
    for record in records:
        variant, facts = record.as_variant(), record.workload
        if facts is None:
            continue
        model = model_of(
            source_file=facts.source_file,
            workload=variant.workload,
            size=variant.size,
            sample_description=facts.sample_description,
            parameters=facts.parameters,
        )
        if model is not None:
            found.setdefault((variant.workload, facts.title), {}).setdefault(variant.size, model)
    return [
        ArchitectureSpec(workload=workload, workload_title=title, models=_drawn(models))
        for (workload, title), models in found.items()
    ]


def draw_architecture(spec: ArchitectureSpec) -> Figure:
    """Draw a network."""
    model = next(iter(spec.models.values()))
    with report_style():
        if isinstance(model, UNet):
            return draw_unet(model)
        if isinstance(model, LSTM):
            return draw_lstm(model)
        return draw_chain({size: each for size, each in spec.models.items() if isinstance(each, Chain)})


def _drawn(models: Mapping[str, Model]) -> Mapping[str, Model]:
    """The smallest network first; of a U-Net that one with the largest picture alone."""
    ordered = dict(sorted(models.items(), key=lambda item: _parameters(item[1])))
    if not any(isinstance(model, UNet) for model in ordered.values()):
        return ordered
    largest = max(ordered, key=lambda size: ordered[size].stages[0].length)
    return {largest: ordered[largest]}


def _parameters(model: Model) -> int:
    return sum(stage.parameters for stage in model.stages)


def _what_to_see(spec: ArchitectureSpec) -> str:
    model = next(iter(spec.models.values()))
    total = count(_parameters(model)).plain()
    if isinstance(model, UNet):
        return (
            f"Numbers in the boxes are channels, those at the left the pixels of a level, here in size "
            f"{next(iter(spec.models))}. Dashed arrows are skip connections. The layers have {total} parameters, as "
            "were counted in the trained network."
        )
    if isinstance(model, LSTM):
        return (
            "Left: unrolled over the characters of a text; numbers in the boxes are the numbers that stand for each "
            "character, and blue arrows carry a state to the next character. Right: the gates of one cell. The layers "
            f"have {total} parameters, as were counted in the trained network."
        )
    sizes = "channels and pixels" if model.stages[0].is_picture else "characters and the numbers that stand for each"
    return (
        f"In the boxes stands what comes out of a stage, {sizes}; below them its parameters, which add up to those "
        "counted in the trained network."
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
