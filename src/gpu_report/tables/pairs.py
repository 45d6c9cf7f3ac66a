"""Two variants compared, process by process where these began alike: a seed gives data, initial
weights and order.

two records -> processes with the same seed side by side -> one figure of both, so that what seeds
differ in cancels
"""

from collections.abc import Iterator
from typing import Final

from gpu_report.records.record import Record, Repetition
from gpu_report.study.machine import default_threads
from gpu_report.tables.processes import protocol_version, values_by_seed
from gpu_report.tables.statistics import NOT_MEASURED, Summary, difference, ratio

Pairs = list[tuple[Repetition, Repetition]]

SOFTWARE: Final = {
    "torch": "PyTorch",
    "torchvision": "torchvision",
    "python": "Python",
    "numpy": "NumPy",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "driver": "driver",
}
"""Software that affects how fast the same code trains: the key in a record's environment, and the
name for readers.
"""


def pairs_of(reference: Record, record: Record) -> Pairs:
    """Processes of the same repetition and seed, that of the reference first."""
    twins = {(each.index, each.seed): each for each in reference.repetitions}
    return [
        (twins[begin], each)
        for each in record.repetitions
        if (begin := (each.index, each.seed)) in twins
    ]


def speedup(record: Record, reference: Record | None) -> Summary:
    """Its throughput over the reference's; not measured where either was not, or by another version
    of the protocol.

    Nor where their optimizers keep other types of numbers: a smaller state is faster, whatever else
    differs.
    """
    if (
        reference is None
        or not same_protocol(record, reference)
        or not _same_state(record, reference)
    ):
        return NOT_MEASURED
    return ratio(*(values_by_seed(each, "throughput_per_s") for each in (record, reference)))


def over_base(record: Record) -> Summary:
    """Throughput over that of the base measured in turn, of the repetitions that have one."""
    bases = {each.index: each.base for each in record.repetitions if each.base is not None}
    speeds = {
        begin: speed
        for begin, speed in values_by_seed(record, "throughput_per_s").items()
        if begin[0] in bases
    }
    return ratio(speeds, {begin: bases[begin[0]].throughput_per_s for begin in speeds})


def quality_change(record: Record, reference: Record | None) -> Summary:
    """How much higher the quality after the last epoch is than the reference's, seed by seed.

    Not measured where a variant was not, where one of them has a process that the other has no twin
    of, where the two learn different workloads, or were measured by different versions of the
    protocol.
    """
    if (
        reference is None
        or not reference.status == record.status == "ok"
        or not same_protocol(record, reference)
    ):
        return NOT_MEASURED
    if reference.as_variant().workload != record.as_variant().workload:
        return NOT_MEASURED
    return difference(*(values_by_seed(each, "quality") for each in (record, reference)))


def same_protocol(record: Record, reference: Record) -> bool:
    """Whether one version of the protocol measured both; numbers of two versions are never
    compared.
    """
    return protocol_version(record) == protocol_version(reference)


def other_software(record: Record, reference: Record) -> Iterator[str]:
    """Software whose versions differ, such as `PyTorch 2.11.0 and 2.15.0`, the record's version
    first.

    A training on the CPU has no driver, CUDA or cuDNN; that does not count as a difference.
    """
    for key, name in SOFTWARE.items():
        versions = [each.environment.get(key) for each in (record, reference)]
        if None not in versions and versions[0] != versions[1]:
            yield f"{name} {versions[0]} and {versions[1]}"


def same_threads(record: Record, reference: Record) -> bool:
    """Whether one thread setting explains the thread counts of both.

    The setting is the default, which depends on the device and on how many processes share it, or
    one requested number. A count that is missing in a record does not count as a difference.
    """
    threads = [each.environment.get("torch_threads") for each in (record, reference)]
    defaults = [
        default_threads(
            variant.device_type,
            cores=int(each.environment.get("cpu_cores") or 1),
            sharing=variant.devices // each.hosts,
        )
        for each in (record, reference)
        for variant in [each.as_variant()]
    ]
    return None in threads or threads[0] == threads[1] or threads == defaults


def _same_state(record: Record, reference: Record) -> bool:
    """Whether their optimizers keep the same types of numbers, as far as both records say."""
    kept = [
        {name for each in one.repetitions for name in each.optimizer_dtypes}
        for one in (record, reference)
    ]
    return not all(kept) or kept[0] == kept[1]
