"""Tables whose cells a test sets, so that a finding can be flipped by the data it rests on and by
nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import pandas as pd

from gpu_report.answers.finding import Finding, Verdict
from gpu_report.answers.questions import QUESTIONS
from gpu_report.answers.scope import chapter_scopes, experiment_scope
from gpu_report.records.record import Record
from gpu_report.study.study import Experiment, Study
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import Tables
from tests.factories import SCALING, make_records, make_study, make_tables, with_tables

GENERIC = "seeds"
"""An experiment that no rule knows by its axis."""
ACROSS_WORKLOADS = "workload_choice"


def asked(axis: str, baseline: object, *grid: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment along the axis; its rows train 3 epochs unless they say otherwise."""
    rows = [{"epochs": 3, **row} for row in grid]
    return {"question": "Which?", "axis": axis, "baseline": baseline, "grid": rows}


def configured(workloads: Mapping[str, Any], /, **experiments: Any) -> dict[str, Any]:
    """A study of five processes for each variant."""
    protocol = {"repetitions": 5, "profile_steps": 3}
    study = {"name": "findings", "title": "Findings", "devices": "auto", "seed": 0}
    return {**study, "protocol": protocol, "workloads": workloads, "experiments": experiments}


def make_finding(**changes: object) -> Finding:
    """One that says yes without evidence, unless changed."""
    plain = Finding(
        id="device_faster/lstm",
        experiment="device",
        question="Is it faster?",
        verdict="yes",
        statement="One is.",
        evidence=(),
        threshold="More is.",
    )
    return Finding.model_validate(plain.model_copy(update=changes).model_dump())


_ON_GPU: Final = {"device": "fastest", "needs_accelerator": True}
_UNET: Final = {"workload": "unet", "size": "64px", "batch_size": 8}
_TUNED_CPU: Final = {
    "device": "cpu",
    "precision": "bf16",
    "optimization": "channelslast",
    "needs_accelerator": True,
}
_LARGE_UNET: Final = {"workload": "unet", "size": "128px", **_ON_GPU}
_CNN: Final = {"workload": "cnn", "size": "medium", "batch_size": 64}
_SMALL_CNN: Final = {"workload": "cnn", "size": "small", "needs_accelerator": True}
_FILES: Final = {"workload": "image_files", "device": "fastest", "batch_size": 32}
_UNCAPTURED: Final = {
    **SCALING["grid"][-1],
    "optimization": "resident",
    "parallelism": ["single", "ddp2"],
}
CONFIG: Final = configured(
    {
        "unet": {"train_samples": 500, "test_samples": 32},
        "lstm": {"train_samples": 2000, "test_samples": 400},
        "cnn": {"data": "synthetic", "train_samples": 2048, "test_samples": 512},
        "image_files": {"train_samples": 256, "test_samples": 64, "image_px": 160},
    },
    device=asked(
        "device",
        "cpu",
        {**_UNET, "steps_per_epoch": 6},
        {**_UNET, **_TUNED_CPU, "steps_per_epoch": 6},
        {"workload": "lstm", "batch_size": 64, "steps_per_epoch": 10},
        _CNN,
    ),
    batch_size=asked(
        "batch_size",
        16,
        {**_CNN, "device": "fastest", "batch_size": [16, 64, 256, 1024], "epochs": 15},
    ),
    complexity=asked("size", "small", {**_CNN, "size": ["small", "medium", "large"]}),
    crossover=asked(
        "device",
        "cpu",
        {**_SMALL_CNN, "batch_size": [1, 16, 256], "epochs": 2, "steps_per_epoch": 30},
    ),
    frontier=asked(
        "batch_size",
        16,
        {
            **_LARGE_UNET,
            "batch_size": [16, 256, 512],
            "epochs": 2,
            "steps_per_epoch": 4,
            "optimization": "resident",
        },
    ),
    precision=asked(
        "precision", "fp32", {**_UNET, **_ON_GPU, "precision": ["fp32", "tf32", "fp16", "bf16"]}
    ),
    optimization=asked(
        "optimization",
        "none",
        {**_UNET, **_ON_GPU, "ladder": ["workers4", "fused", "resident", "compile"]},
    ),
    memory=asked(
        "optimization",
        "none",
        {
            **_LARGE_UNET,
            "batch_size": 64,
            "optimization": ["none", "checkpoint", "accumulate2"],
        },
    ),
    scaling=SCALING,
    uncaptured={**SCALING, "grid": [_UNCAPTURED]},
    workers=asked("workers", 0, {**_FILES, "workers": [0, 2, 4, 8]}),
)
"""Experiments of its own, so that tuning the default study moves no test."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Cells to set in the rows of a table that hold these values."""

    table: str
    where: Mapping[str, Any]
    cells: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A finding and the verdict it must have after some edits."""

    finding: str
    verdict: Verdict
    edits: Sequence[Edit] = ()
    devices: tuple[str, ...] = ("cpu", "cuda")

    @property
    def name(self) -> str:
        return f"{self.finding} {self.verdict}"

    def derive(self) -> Finding:
        key = repr(self)
        if key not in _derived:
            _derived[key] = self._derive()
        return _derived[key]

    def _derive(self) -> Finding:
        tables, study = base(self.devices)
        for edit in self.edits:
            tables = edited(tables, edit)
        of_experiments = [experiment_scope(tables, experiment) for experiment in study.experiments]
        scopes = [*chapter_scopes(tables), *of_experiments]
        asked = [
            (question, scope)
            for scope in scopes
            for question in QUESTIONS
            if question.applies_to(scope)
            and f"{scope.name}_{question.name}" == rule_of(self.finding)
        ]
        findings = [finding for question, scope in asked for finding in question.findings(scope)]
        return one(findings, self.finding)


def cases(
    finding: str,
    *,
    yes: Sequence[Edit] | None = None,
    no: Sequence[Edit] | None = None,
    unresolved: Sequence[Edit] | None = None,
    missing: Sequence[Edit] | None = None,
    kind: type[Case] = Case,
) -> list[Case]:
    """The edits that bring a finding to each of these verdicts, `missing` to 'not measured'."""
    edits: dict[Verdict, Sequence[Edit] | None] = {
        "yes": yes,
        "no": no,
        "too close to call": unresolved,
        "not measured": missing,
    }
    return [
        kind(finding=finding, verdict=verdict, edits=one)
        for verdict, one in edits.items()
        if one is not None
    ]


_derived: dict[str, Finding] = {}
"""By case, because several tests look at the same finding."""


def rule_of(finding: str) -> str:
    return finding.partition("/")[0]


def figure(column: str, value: float, spread: float = 0.0) -> dict[str, float]:
    """A figure of five processes and its interval, which reaches `spread` to either side."""
    cells = {
        column: value,
        f"{column}_low": value - spread,
        f"{column}_high": value + spread,
        f"{column}_count": 5,
    }
    return cells | ({f"{column}_p": 1e-4} if column in ("speedup", "quality_change") else {})


def unpaired_quality(value: float, spread: float = 0.0) -> dict[str, float]:
    """Quality that cannot be compared seed by seed, as where two variants have other seeds."""
    return {**figure("quality", value, spread), **figure("quality_change", math.nan)}


def one(findings: Sequence[Finding], identifier: str) -> Finding:
    (found,) = [finding for finding in findings if finding.id == identifier]
    return found


@cache
def base(devices: tuple[str, ...] = ("cpu", "cuda")) -> tuple[Tables, Study]:
    """A study along every axis that rules ask about and two that they do not know, and plausible
    tables of it.
    """
    study = make_study(devices=devices, config=CONFIG)
    variants = [
        Variant(workload="cnn", size="small", device="cpu", batch_size=32, seed=seed, epochs=3)
        for seed in range(3)
    ]
    workloads = [
        Variant(workload=name, device="cpu", batch_size=32, epochs=3)
        for name in ("lstm", "image_files")
    ]
    across = Experiment(
        name=ACROSS_WORKLOADS,
        question="Which?",
        axis="workload",
        baseline="lstm",
        variants=tuple(workloads),
    )
    more = Experiment(
        name=GENERIC, question="Which?", axis="seed", baseline=0, variants=tuple(variants)
    )
    study = replace(study, experiments=(*study.experiments, more, across))
    return make_tables(study, _profiled_but_shared(study)), study


def _profiled_but_shared(study: Study) -> list[Record]:
    """Records of the study; those about several devices alone have no trace, and so move no finding
    about traces.
    """
    others = {
        variant
        for each in study.experiments
        for variant in each.variants
        if each.axis != "parallelism"
    }
    return [
        record if record.as_variant() in others else record.model_copy(update={"profile": None})
        for record in make_records(study)
    ]


def edited(tables: Tables, edit: Edit) -> Tables:
    """The tables with some cells set; the edit must hit at least one row."""
    if edit.table in tables.experiments:
        changed = _with_cells(tables.experiments[edit.table], edit)
        return replace(tables, experiments={**tables.experiments, edit.table: changed})
    return with_tables(tables, **{edit.table: _with_cells(getattr(tables, edit.table), edit)})


def _with_cells(frame: pd.DataFrame, edit: Edit) -> pd.DataFrame:
    frame = frame.copy()
    chosen = pd.Series(True, index=frame.index)
    for column, value in edit.where.items():
        chosen &= frame[column] == value
    assert chosen.any(), f"no row of {edit.table} has {edit.where}"
    for column, value in edit.cells.items():
        frame.loc[chosen, column] = value
    return frame
