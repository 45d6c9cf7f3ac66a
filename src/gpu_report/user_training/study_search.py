"""A batch-size search of the study, as a record: what `find_batch_size` finds, of one of our
workloads.

BatchSearch -> OwnTraining -> try_sizes, each in a fresh process -> SearchRecord; one that fails is
a result, too
"""

from collections.abc import Callable

from gpu_report.measure.environment import host_environment
from gpu_report.measure.run import PATIENCE_S
from gpu_report.records.batch_sizes import SCHEMA_VERSION, Answers, SearchRecord, Tried
from gpu_report.records.provenance import find_provenance
from gpu_report.study.options import option_names
from gpu_report.study.search import BatchSearch
from gpu_report.user_training.batch_size import Probe, try_sizes
from gpu_report.user_training.process import OwnTraining, own_server


@own_server()
def search_batch_size(
    search: BatchSearch, *, machine: str, on_try: Callable[[Probe], None]
) -> SearchRecord:
    """Try numbers of samples on the machine with this id, otherwise idle; `on_try` is called after
    each of them.
    """
    provenance = find_provenance()
    plain = search.variant(samples=1)
    training = OwnTraining(
        build=search.workload,
        make_batch=None,
        size=search.size,
        device=search.device,
        precision=search.precision,
        options=option_names(plain.options),
        accumulate=plain.accumulation,
        memory_limit_mib=search.memory_limit_mib,
        margin=search.margin,
        seconds=search.seconds,
        least_s=PATIENCE_S / 2,
    )
    found = try_sizes(training, search, patience_s=PATIENCE_S, on_try=on_try)
    fitting = [probe.fitting.measured for probe in found.fitting]
    return SearchRecord(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        search=search,
        memory_kind=fitting[0].memory_kind if fitting else None,
        tries=[_tried(probe) for probe in found.probes],
        answers=Answers(
            largest=found.largest.samples,
            is_resolved=found.is_resolved,
            fastest=None if found.problem else found.fastest.samples,
            smallest_near_fastest=None if found.problem else found.smallest_near_fastest.samples,
        )
        if fitting
        else None,
        environment={
            **host_environment(),
            **({"torch": fitting[0].torch_version} if fitting else {}),
        },
        provenance=provenance,
    )


def _tried(probe: Probe) -> Tried:
    if probe.fits:
        return Tried(
            samples=probe.samples,
            status="ok",
            reason="",
            throughputs_per_s=probe.throughputs_per_s,
            memory_peak_mib=probe.peak_mib,
            memory_taken_mib=probe.fitting.memory_taken_mib,
            memory_limit_mib=probe.fitting.memory_limit_mib,
        )
    return Tried(
        samples=probe.samples,
        status=probe.stopped.status,
        reason=probe.stopped.reason,
        throughputs_per_s=[],
        memory_peak_mib=None,
        memory_taken_mib=None,
        memory_limit_mib=None,
    )
