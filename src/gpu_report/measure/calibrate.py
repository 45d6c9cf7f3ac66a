"""Calibrating a machine: the measured peaks of its devices and of their link, each from several
fresh processes.

device -> fresh processes -> a Ceilings with one value each -> one Ceilings with all values
devices that share trainings -> fresh launches, a process for each device -> a Link each -> one Link
both -> Calibration
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Final, TypeVar

from gpu_report.errors import MachineError
from gpu_report.measure.calibration_plan import LINK, LinkPlan, Plan, plan_for
from gpu_report.measure.children import end_with_parent
from gpu_report.measure.environment import host_environment
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.processes import Output, ending_stopped, fresh_processes
from gpu_report.measure.run import EnvironmentValue
from gpu_report.measure.threads import training_threads
from gpu_report.records.calibration import (
    SCHEMA_VERSION,
    Calibration,
    Ceilings,
    Link,
    LinkOperation,
    MatrixProduct,
    Transfer,
)
from gpu_report.records.provenance import find_provenance

PROCESSES: Final = 5
"""Fresh processes per device, as many as of a configuration: a share of a ceiling then has an
interval.
"""

_Measured = TypeVar("_Measured", MatrixProduct, Transfer, LinkOperation)
_Found = TypeVar("_Found")


def calibrate(
    devices: Sequence[str],
    *,
    linked: Sequence[str] = (),
    machine: str,
    plan_of: Callable[[str], Plan] = plan_for,
    link_plan: LinkPlan = LINK,
    processes: int = PROCESSES,
) -> Calibration:
    """Measure the ceilings of these devices, given by their PyTorch names, one after another, and
    then a link.

    It is that between the devices `linked`, or else between the accelerators among the others,
    where there are two.

    Raises:
        MachineError: PyTorch is not installed, a device is not present, one of its operations
            failed, or the thread count is not valid.
    """
    require_pytorch()
    threads = training_threads()
    provenance = find_provenance()
    environment: dict[str, EnvironmentValue] = host_environment()
    linked = linked or [device for device in devices if device != "cpu"]
    context = fresh_processes()
    ceilings = []
    for device in devices:
        found = [
            _in_fresh_process(context, device, _measure, device, threads, plan_of(device))
            for _ in range(processes)
        ]
        ceilings.append(merge([of_process for of_process, _ in found]))
        environment |= found[0][1]
    link = None
    if len(linked) > 1:
        what = f"the link between {' and '.join(linked)}"
        links = [
            _in_fresh_process(context, what, _measure_link, linked, link_plan)
            for _ in range(processes)
        ]
        # Of all launches, in their order; what not every one measured is left out.
        operations = _merged([each.operations for each in links], "times_s")
        link = links[0].model_copy(update={"operations": operations})
    return Calibration(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        ceilings=ceilings,
        link=link,
        environment=environment,
        provenance=provenance,
    )


def merge(ceilings: Sequence[Ceilings]) -> Ceilings:
    """One Ceilings with the values of all, in their order; what not every process measured is left
    out.
    """
    return ceilings[0].model_copy(
        update={
            "matrix_products": _merged([each.matrix_products for each in ceilings], "flops_per_s"),
            "copy_bytes_per_s": [rate for each in ceilings for rate in each.copy_bytes_per_s],
            "transfers": _merged([each.transfers for each in ceilings], "times_s"),
        }
    )


def _merged(measured: Sequence[Sequence[_Measured]], field: str) -> list[_Measured]:
    """Each operation of the first process that all measured, with the values of all in this
    field.
    """
    merged = []
    for first in measured[0]:
        operation = first.model_dump(exclude={field})
        same = [
            next((one for one in each if one.model_dump(exclude={field}) == operation), None)
            for each in measured
        ]
        if None not in same:
            merged.append(
                first.model_copy(
                    update={field: [value for one in same for value in getattr(one, field)]}
                )
            )
    return merged


def _in_fresh_process(
    context: ForkServerContext | SpawnContext,
    what: str,
    measure: Callable[..., _Found],
    *arguments: object,
) -> _Found:
    with (
        ending_stopped(f"calibrating {what}"),
        ProcessPoolExecutor(
            max_workers=1, mp_context=context, initializer=_begin, initargs=(Output(),)
        ) as executor,
    ):
        try:
            return executor.submit(measure, *arguments).result()
        except (BrokenProcessPool, EOFError, ConnectionError) as error:
            raise MachineError(
                f"calibrating {what}: its process was killed, or the server that forks it, from "
                "outside or by the OOM killer; run the same command again"
            ) from error
        except RuntimeError as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise MachineError(
                f"calibrating {what} failed: {said}; make sure that nothing else uses the device, "
                "then run the same command again"
            ) from error


def _begin(output: Output) -> None:
    output.take()
    end_with_parent()


def _measure(device: str, threads: int, plan: Plan) -> tuple[Ceilings, dict[str, EnvironmentValue]]:
    # Here and not above: the process that waits does not import PyTorch.
    from gpu_report.measure.calibration_process import measure_ceilings

    return measure_ceilings(device, threads=threads, plan=plan)


def _measure_link(devices: Sequence[str], plan: LinkPlan) -> Link:
    from gpu_report.measure.link_process import measure_link

    return measure_link(devices, plan)
