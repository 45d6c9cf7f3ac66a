"""The pictures that stand for the study itself: the networks that were trained, and the workflow.

records of the machines -> specs -> Figure
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from gpu_report.catalogue import BUILT_IN_WORKLOADS
from gpu_report.figures.architecture.registry import ArchitectureSpec as ArchitectureSpec
from gpu_report.figures.architecture.registry import architectures, draw_architecture
from gpu_report.figures.workflow import Counts, WorkflowSpec, draw_workflow
from gpu_report.records import Record
from gpu_report.tables.schema import PEAKS, STUDY_TABLES, TRANSFERS
from gpu_report.traces.tables import TRACE_TABLES

StudyPicture = ArchitectureSpec | WorkflowSpec


@dataclass(frozen=True, kw_only=True)
class MachineShown:
    """What one machine gave for the study, as far as these pictures count it."""

    records: Sequence[Record]
    is_imported: bool
    """Whether its records came in a bundle."""
    experiments: int
    """Those that it has variants of."""


def study_pictures(machines: Sequence[MachineShown], *, sections: int) -> list[StudyPicture]:
    """Every known network that the first machine trained, and the workflow, which has the part of each machine."""
    networks = architectures(machines[0].records)
    calibration_tables = len((PEAKS, TRANSFERS))
    measured = [record for machine in machines if not machine.is_imported for record in machine.records]
    counts = Counts(
        measured=len(measured),
        imported=sum(len(machine.records) for machine in machines if machine.is_imported),
        image_files=any(_reads_image_files(record) for record in measured),
        trace_tables=len(TRACE_TABLES),
        calibration_tables=calibration_tables,
        study_tables=sum(len(STUDY_TABLES) - calibration_tables + machine.experiments for machine in machines),
        networks=len(networks),
        sections=sections,
    )
    return [*networks, WorkflowSpec(counts=counts)]


def draw_study_picture(spec: StudyPicture) -> Figure:
    """Draw one of them."""
    return draw_workflow(spec) if isinstance(spec, WorkflowSpec) else draw_architecture(spec)


def _reads_image_files(record: Record) -> bool:
    workload = BUILT_IN_WORKLOADS.get(record.as_variant().workload)
    return workload is not None and workload.reads_image_files
