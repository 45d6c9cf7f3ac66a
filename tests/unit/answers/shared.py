"""A study of trainings that several devices share, with cells of its tables edited."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from gpu_report.answers.finding import Finding
from gpu_report.answers.questions import derive_findings
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import make_study, make_tables
from tests.unit.answers.editing import Case, Edit, asked, configured, edited, one

DEFAULTS = "channelslast"
SETTINGS = tuple(f"{DEFAULTS}+{name}" for name in ("bucket1", "bucket100", "bucketview"))
PARTS = ("accumulate2", "accumulate4")
_ROW = {"workload": "unet", "size": "128px", "device": "cuda", "epochs": 3}
_IN_PARTS: Final = {**_ROW, "batch_size": 64}
CONFIG: Final = configured(
    {"unet": {"train_samples": 512, "test_samples": 32}},
    ddp_options=asked(
        "optimization",
        DEFAULTS,
        {
            **_ROW,
            "batch_size": 32,
            "parallelism": "ddp2",
            "optimization": [
                *(DEFAULTS, *SETTINGS, *(f"{part}+{DEFAULTS}" for part in PARTS)),
                *(f"{DEFAULTS}+nocomm", "none"),
            ],
        },
    ),
    model_split=asked(
        "parallelism",
        "single",
        {**_IN_PARTS, "parallelism": ["single", "split2", "ddp2", "fsdp2"]},
        {**_IN_PARTS, "parallelism": "pipeline2", "optimization": ["none", *PARTS]},
    ),
)


@cache
def base_of_shared() -> tuple[Study, Tables]:
    study = make_study(config=CONFIG)
    return study, make_tables(study)


@dataclass(frozen=True, kw_only=True)
class SharedCase(Case):
    """A case in a study of shared trainings."""

    def _derive(self) -> Finding:
        study, tables = base_of_shared()
        for edit in self.edits:
            tables = edited(tables, edit)
        return one(derive_findings(tables, study.experiments), self.finding)


def setting(name: str, /, **cells: object) -> Edit:
    return Edit(table="ddp_options", where={"optimization": name}, cells=cells)


def split(name: str, /, **cells: object) -> Edit:
    """What the table of shared models says of a variant whose name ends so."""
    (variant,) = (
        each for each in base_of_shared()[1].model_splits["variant"] if each.endswith(name)
    )
    return Edit(table="model_splits", where={"variant": variant}, cells=cells)
