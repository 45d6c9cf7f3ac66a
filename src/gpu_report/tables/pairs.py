"""Processes of two variants that began alike: the same seed gives the same data, initial weights and order.

two records -> pairs of processes with the same seed -> a figure of each pair, so that what the seeds differ in cancels
"""

from gpu_report.records import Record, Repetition
from gpu_report.tables.statistics import NOT_MEASURED, Summary, summarise

Pairs = list[tuple[Repetition, Repetition]]


def pairs_of(reference: Record, record: Record) -> Pairs:
    """Processes of the same repetition and seed, that of the reference first."""
    twins = {_begin(repetition): repetition for repetition in reference.repetitions}
    return [(twins[_begin(repetition)], repetition) for repetition in record.repetitions if _begin(repetition) in twins]


def quality_change(reference: Record | None, record: Record) -> Summary:
    """How much higher the quality after the last epoch is than the reference's: median of the pairs' differences.

    Not measured where a variant was not, where one of them has a process that the other has no twin of, or where the
    two learn different workloads.
    """
    if reference is None or not reference.status == record.status == "ok":
        return NOT_MEASURED
    pairs = pairs_of(reference, record)
    alike = reference.as_variant().workload == record.as_variant().workload
    if not alike or not len(pairs) == len(reference.repetitions) == len(record.repetitions):
        return NOT_MEASURED
    return summarise([after.epochs[-1].quality - before.epochs[-1].quality for before, after in pairs])


def _begin(repetition: Repetition) -> tuple[int, int]:
    return repetition.index, repetition.seed
