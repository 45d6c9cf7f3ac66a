"""The command that measures what the machine's devices reach at most."""

from argparse import Namespace

from gpu_report.measure.calibrate import calibrate as measure
from gpu_report.printing.terminal import say
from gpu_report.records.calibration import CALIBRATION_FILE
from gpu_report.storage.files import take_own_temporary_folder
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.machine import find_machine, require_machine


def calibrate(arguments: Namespace) -> None:
    """Calibrate the devices and write what was found; a line on stdout for each of them, and for
    their link.
    """
    require_machine(arguments.machine)
    present = find_machine().devices if arguments.linked else ()
    # A study may ask for more devices than the machine has; its trainings on them are skipped.
    linked = [device for device in arguments.linked if device in present]
    with machine_to_itself():
        take_own_temporary_folder()
        calibration = measure(arguments.devices, linked=linked, machine=arguments.machine)
    CALIBRATION_FILE.write(calibration, arguments.calibration)
    for ceilings in calibration.ceilings:
        products = ", ".join(ceilings.peaks)
        say(
            f"{ceilings.device} ({ceilings.name}): calibrated with matrix products in {products}, "
            f"a copy of its memory and {len(ceilings.transfers)} transfers"
        )
    if calibration.link:
        connections = sorted({pair.connection or "unknown" for pair in calibration.link.pairs})
        say(
            f"{', '.join(calibration.link.devices)}: link ({', '.join(connections) or 'unknown'}) "
            f"calibrated with {calibration.link.backend} and "
            f"{len(calibration.link.operations)} operations"
        )
