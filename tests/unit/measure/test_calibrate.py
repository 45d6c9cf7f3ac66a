"""A machine is calibrated by fresh processes, and what they measured is put together, on the CPU
with little work.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from gpu_report.cli import main
from gpu_report.errors import MachineError
from gpu_report.measure.calibrate import calibrate, merge
from gpu_report.measure.calibration_plan import LINK, LinkPlan, Plan, plan_for
from gpu_report.measure.calibration_process import (
    DTYPES,
    measure_product,
    measure_transfers,
    median_time_s,
    precisions_of,
)
from gpu_report.measure.timing import HostClock
from gpu_report.records.calibration import CALIBRATION_FILE, Calibration, Ceilings
from gpu_report.study.machine import Accelerator, Machine, find_machine
from tests.factories import make_calibration

CPU = torch.device("cpu")
PROCESSES = 2
KIB = 2**10
TINY = Plan(
    product_size=32,
    product_budget_s=0.0,
    copy_bytes=64 * KIB,
    copy_budget_s=0.0,
    transfer_bytes=(4 * KIB, 16 * KIB),
    transfer_budget_s=0.0,
)


TINY_LINK = LinkPlan(payload_bytes=(4 * KIB, 16 * KIB), budget_s=0.0, timing_s=0.0)


class _KillsItsReader(Plan):
    def __reduce__(self) -> Any:
        return os._exit, (9,)


def small(**changes: Any) -> Plan:
    return Plan(**{**vars(TINY), **changes})


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(["cpu"], machine="here", plan_of=lambda _: TINY, processes=PROCESSES)


def test_every_ceiling_holds_one_value_per_process(calibration: Calibration) -> None:
    (ceilings,) = calibration.ceilings

    assert [len(product.flops_per_s) for product in ceilings.matrix_products] == [PROCESSES] * len(
        precisions_of(CPU)
    )
    assert len(ceilings.copy_bytes_per_s) == PROCESSES
    assert min(ceilings.copy_bytes_per_s) > 0
    assert (ceilings.device, ceilings.matrix_products[0].precision, ceilings.transfers) == (
        "cpu",
        "fp32",
        [],
    )
    assert calibration.environment["torch"] == str(torch.__version__)


def test_devices_that_share_no_training_have_no_link(calibration: Calibration) -> None:
    assert calibration.link is None


def test_a_link_is_measured_between_all_devices_and_between_the_first_two() -> None:
    link = calibrate(
        [], linked=["cpu"] * 3, machine="here", link_plan=TINY_LINK, processes=PROCESSES
    ).link

    assert link is not None
    assert (link.backend, link.devices) == ("gloo", ["cpu"] * 3)
    operations = ["all-reduce", "all-gather", "reduce-scatter"]
    assert [(one.operation, one.devices, one.bytes) for one in link.operations] == [
        *(
            (operation, 2, size)
            for operation in [*operations, "point-to-point"]
            for size in TINY_LINK.payload_bytes
        ),
        # Numbers of four bytes that three devices share equally.
        *(
            (operation, 3, size // 12 * 12)
            for operation in operations
            for size in TINY_LINK.payload_bytes
        ),
    ]
    assert all(len(one.times_s) == PROCESSES and min(one.times_s) > 0 for one in link.operations)


def test_a_rank_that_fails_is_named_with_its_reason() -> None:
    broken = LinkPlan(payload_bytes=(-8,), budget_s=0.0, timing_s=0.0)

    with pytest.raises(
        MachineError, match=r"the link between cpu and cpu failed: rank [01]: .*negative dimension"
    ):
        calibrate([], linked=["cpu", "cpu"], machine="here", link_plan=broken, processes=1)


def test_what_was_calibrated_can_be_written_and_read(
    calibration: Calibration, tmp_path: Path
) -> None:
    CALIBRATION_FILE.write(calibration, tmp_path / "calibration.json")

    assert CALIBRATION_FILE.read(tmp_path / "calibration.json") == calibration


def test_the_process_that_waits_does_not_import_pytorch() -> None:
    program = (
        "import sys\n"
        "from gpu_report.measure.calibrate import calibrate\n"
        "from gpu_report.measure.calibration_plan import Plan\n"
        f"tiny = {TINY!r}\n"
        "if __name__ == '__main__':\n"
        "    calibrate(['cpu'], machine='here', plan_of=lambda _: tiny, processes=1)\n"
        "    print('torch' in sys.modules)\n"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == "False"


def test_a_device_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(MachineError, match="cannot calibrate xpu: xpu is not present"):
        calibrate(["xpu"], machine="here", plan_of=lambda _: TINY, processes=1)


def test_an_operation_that_fails_is_an_error_in_one_line() -> None:
    broken = small(product_size=-1)

    with pytest.raises(
        MachineError,
        match=r"calibrating cpu failed: .*negative dimension.*run the same command again",
    ):
        calibrate(["cpu"], machine="here", plan_of=lambda _: broken, processes=1)


def test_a_process_that_is_killed_is_named_as_such() -> None:
    deadly = _KillsItsReader(**vars(TINY))

    with pytest.raises(MachineError, match="calibrating cpu: its process was killed"):
        calibrate(["cpu"], machine="here", plan_of=lambda _: deadly, processes=1)


@pytest.mark.parametrize(("budget_s", "timed"), [(0.0, 3), (1e6, 5)])
def test_an_operation_is_repeated_as_the_budget_allows_within_bounds(
    budget_s: float, timed: int
) -> None:
    calls: list[int] = []
    plan = small(least=3, most=5)

    median_time_s(lambda: calls.append(1), HostClock, device=CPU, budget_s=budget_s, plan=plan)

    warm_up = 2
    assert len(calls) == warm_up + timed


def test_transfers_go_both_ways_in_every_size() -> None:
    transfers = measure_transfers(CPU, TINY)

    assert [(one.direction, one.memory, one.bytes) for one in transfers] == [
        (direction, "pageable", size)
        for direction in ("to device", "to host")
        for size in TINY.transfer_bytes
    ]
    assert all(time_s > 0 for one in transfers for time_s in one.times_s)


def test_sizes_that_memory_has_no_room_for_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_free(monkeypatch, 20 * KIB)
    assert [one.bytes for one in measure_transfers(CPU, TINY)] == [4 * KIB, 4 * KIB]

    leave_free(monkeypatch, 1 * KIB)
    assert measure_transfers(CPU, TINY) == []


def test_matrices_shrink_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_free(monkeypatch, 20 * KIB)

    assert measure_product(CPU, "fp32", TINY).size == 16


@pytest.mark.parametrize("precision", DTYPES)
def test_products_of_every_precision_can_be_measured(precision: str) -> None:
    product = measure_product(CPU, precision, TINY)

    assert (product.precision, product.size) == (precision, TINY.product_size)
    assert product.flops_per_s[0] > 0


def test_an_accelerator_is_asked_for_copies_of_4_kib_to_1_gib() -> None:
    plan = plan_for("cuda:1")

    assert plan.transfer_bytes[0] == 4 * KIB
    assert plan.transfer_bytes[-1] == plan.copy_bytes == 2**30
    assert plan_for("cpu").transfer_bytes == ()
    assert LINK.payload_bytes == plan.transfer_bytes


def test_processes_are_put_together_in_their_order() -> None:
    first, second = make_calibration(["cuda"]).ceilings[0], make_calibration(["cuda"]).ceilings[0]

    merged = merge([first, second])

    for product in merged.matrix_products:
        (alike,) = [one for one in first.matrix_products if one.precision == product.precision]
        assert product.flops_per_s == alike.flops_per_s * 2
    assert len(merged.transfers) == len(first.transfers)
    assert {len(one.times_s) for one in merged.transfers} == {2 * len(first.transfers[0].times_s)}


def test_what_a_process_could_not_measure_is_left_out() -> None:
    whole = make_calibration(["cuda"]).ceilings[0]
    less = Ceilings(
        **{
            **dict(whole),
            "matrix_products": whole.matrix_products[1:],
            "transfers": whole.transfers[:-1],
        }
    )

    merged = merge([whole, less])

    assert [one.precision for one in merged.matrix_products] == [
        one.precision for one in less.matrix_products
    ]
    assert [one.bytes for one in merged.transfers] == [one.bytes for one in less.transfers]


def test_the_command_writes_the_calibration_and_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_calibration(["cpu", "cuda"], linked=2)
    monkeypatch.setattr(
        "gpu_report.commands.calibrating.measure", lambda devices, linked, machine: made
    )
    monkeypatch.setattr(
        "gpu_report.commands.calibrating.take_own_temporary_folder", lambda: None
    )  # for good
    path = tmp_path / "calibration.json"

    here = find_machine().id
    status = main(
        ["calibrate", "--machine", here, "--devices", "cpu", "cuda", "--calibration", str(path)]
    )

    assert status == 0
    assert CALIBRATION_FILE.read(path) == made
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in said] == ["cpu", "cuda", "cuda,"]


def test_only_devices_that_are_present_are_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def measure(_devices: list[str], *, linked: list[str], machine: str) -> Calibration:
        asked.append(linked)
        return make_calibration(machine=machine)

    two = Machine(
        cpu_model="",
        cores=1,
        memory_gib=1,
        accelerators=(Accelerator(backend="cuda", name="", memory_gib=1),) * 2,
    )
    monkeypatch.setattr("gpu_report.commands.calibrating.measure", measure)
    for module in ("commands.calibrating", "study.machine"):
        monkeypatch.setattr(f"gpu_report.{module}.find_machine", lambda: two)
    monkeypatch.setattr(
        "gpu_report.commands.calibrating.take_own_temporary_folder", lambda: None
    )  # for good
    names = ["cuda", "cuda:1", "cuda:2"]

    main(
        [
            "calibrate",
            f"--machine={two.id}",
            "--devices",
            "cpu",
            "--linked",
            *names,
            f"--calibration={tmp_path / 'c.json'}",
        ]
    )

    assert asked == [["cuda", "cuda:1"]]


def leave_free(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free_bytes))
