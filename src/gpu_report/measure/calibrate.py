"""Calibrating a machine: what its devices reach at most, each device asked by several fresh processes.

device -> fresh processes -> a Ceilings with one value each -> one Ceilings with the values of all -> Calibration
"""

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Final

from gpu_report.calibration import SCHEMA_VERSION, Calibration, Ceilings, MatrixProduct, Transfer
from gpu_report.errors import MachineError
from gpu_report.measure.calibration_plan import Plan, plan_for
from gpu_report.measure.environment import host_environment
from gpu_report.measure.messages import EnvironmentValue
from gpu_report.measure.parent_watch import end_with_parent, fresh_processes
from gpu_report.measure.threads import training_threads
from gpu_report.provenance import find_provenance

PROCESSES: Final = 5
"""Fresh processes per device, as many as of a configuration: a share of a ceiling then has an interval."""

_PRELOADED: Final = "gpu_report.measure.calibration_process"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one process measured of a device: ceilings that hold one value each."""

    ceilings: Ceilings
    environment: dict[str, EnvironmentValue]


def calibrate(
    devices: Sequence[str], *, machine: str, plan_of: Callable[[str], Plan] = plan_for, processes: int = PROCESSES
) -> Calibration:
    """Measure the ceilings of these devices, given by their PyTorch names, one after another.

    Raises:
        MachineError: PyTorch is not installed, a device is not there, or one of its operations failed; or threads are
            set to no number.
    """
    if importlib.util.find_spec("torch") is None:
        raise MachineError("PyTorch is not installed here; install it with: pip install torch")
    threads = training_threads()
    provenance = find_provenance()
    seen = {
        device: [_measure_in_fresh_process(device, threads, plan_of(device)) for _ in range(processes)]
        for device in devices
    }
    environment: dict[str, EnvironmentValue] = host_environment()
    for of_device in seen.values():
        environment |= of_device[0].environment
    return Calibration(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        ceilings=[merge([each.ceilings for each in of_device]) for of_device in seen.values()],
        environment=environment,
        provenance=provenance,
    )


def merge(ceilings: Sequence[Ceilings]) -> Ceilings:
    """One Ceilings with the values of all, in their order; what not every process measured is left out."""
    first = ceilings[0]
    return Ceilings(
        device=first.device,
        name=first.name,
        matrix_products=[
            product.model_copy(update={"flops_per_s": rates})
            for product in first.matrix_products
            if (rates := _values(product, (one.matrix_products for one in ceilings), "flops_per_s"))
        ],
        copy_bytes=first.copy_bytes,
        copy_bytes_per_s=[rate for one in ceilings for rate in one.copy_bytes_per_s],
        transfers=[
            transfer.model_copy(update={"times_s": times})
            for transfer in first.transfers
            if (times := _values(transfer, (one.transfers for one in ceilings), "times_s"))
        ],
    )


def _values(
    part: MatrixProduct | Transfer, measured: Iterable[Sequence[MatrixProduct | Transfer]], field: str
) -> list[float]:
    """The values of the same operation in every process; none where one lacks it."""
    same = part.model_dump(exclude={field})
    found = [[one for one in parts if one.model_dump(exclude={field}) == same] for parts in measured]
    return [value for ones in found for one in ones for value in getattr(one, field)] if all(found) else []


def _measure_in_fresh_process(device: str, threads: int, plan: Plan) -> Seen:
    context = fresh_processes([_PRELOADED])
    with ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=end_with_parent) as executor:
        try:
            return executor.submit(_measure, device, threads, plan).result()
        except BrokenProcessPool as error:
            raise MachineError(
                f"calibrating {device}: its process was killed, from outside or for want of memory; run the same "
                "command again"
            ) from error
        except RuntimeError as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise MachineError(
                f"calibrating {device} failed: {said}; make sure that nothing else uses the device, then run the same "
                "command again"
            ) from error


def _measure(device: str, threads: int, plan: Plan) -> Seen:
    # Here and not above: whoever waits for the processes need not import PyTorch.
    from gpu_report.measure.calibration_process import measure_ceilings

    return measure_ceilings(device, threads=threads, plan=plan)
