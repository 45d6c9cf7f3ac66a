"""A study of loops that a workload brings, with cells of its tables edited."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from gpu_report.answers.finding import Finding
from gpu_report.answers.questions import derive_findings
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import make_study, make_tables
from tests.unit.answers.editing import Case, Edit, asked, configured, edited, figure, one

ON_GPU = ("graphs", "separate", "fusedstep", "persistent")
_LOOPS: Final = {"workload": "linear_regression", "steps_per_epoch": 200}
_SMALL_CNN: Final = {"workload": "cnn", "size": "small", "batch_size": [1, 16, 256]}
CONFIG: Final = configured(
    {
        "linear_regression": {"test_samples": 1000},
        "cnn": {"data": "synthetic", "train_samples": 2048, "test_samples": 512},
    },
    loops=asked(
        "optimization",
        "none",
        *(
            {**_LOOPS, "device": device, "batch_size": 4_000_000, "optimization": ["none", *loops]}
            for device, loops in {
                "cpu": ("compile", "openmp"),
                "fastest": (*ON_GPU, "statistics"),
            }.items()
        ),
    ),
    sizes=asked(
        "batch_size",
        8000,
        *(
            {**_LOOPS, "device": device, "batch_size": [800, 8000, 80000], "optimization": loop}
            for device, loop in {"cpu": "openmp", "fastest": "fusedstep"}.items()
        ),
    ),
    crossover=asked(
        "device",
        "cpu",
        {**_SMALL_CNN, "epochs": 2, "steps_per_epoch": 30},
        {**_LOOPS, "batch_size": [800, 8_000_000]},
    ),
)


@cache
def base_of_loops() -> tuple[Study, Tables]:
    study = make_study(config=CONFIG)
    return study, make_tables(study)


@dataclass(frozen=True, kw_only=True)
class LoopCase(Case):
    """A case in a study of loops."""

    def _derive(self) -> Finding:
        study, tables = base_of_loops()
        for edit in self.edits:
            tables = edited(tables, edit)
        return one(derive_findings(tables, study.experiments), self.finding)


def loop(name: str, device: str = "cuda", /, **cells: object) -> Edit:
    return Edit(table="loops", where={"optimization": name, "device": device}, cells=cells)


def rate(name: str, value: float, spread: float = 1.0, *, device: str = "cuda") -> Edit:
    return loop(name, device, **figure("throughput_per_s", value, spread))
