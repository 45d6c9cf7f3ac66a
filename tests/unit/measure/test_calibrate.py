"""A machine is calibrated by fresh processes, and what they measured is put together, on the CPU
with little work.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from gpu_report.cli import main
from gpu_report.errors import MachineError
from gpu_report.measure.calibrate import calibrate, merge
from gpu_report.measure.calibration_plan import LinkPlan, Plan
from gpu_report.measure.calibration_process import (
    DTYPES,
    measure_products,
    measure_transfers,
    median_time_s,
    precisions_of,
)
from gpu_report.measure.timing import HostClock
from gpu_report.records.calibration import CALIBRATION_FILE, Calibration, Ceilings
from gpu_report.study.machine import Accelerator, Machine
from tests.factories import make_calibration

CPU = torch.device("cpu")
PROCESSES = 2
KIB = 2**10
TINY = Plan(
    product_shapes=((32, 32, 32), (32, 16, 64)),
    product_budget_s=0.0,
    warm_budget_s=0.0,
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

    assert [(one.precision, one.shape) for one in ceilings.matrix_products] == [
        (precision, shape) for precision in precisions_of(CPU) for shape in TINY.product_shapes
    ]
    assert {len(one.flops_per_s) for one in ceilings.matrix_products} == {PROCESSES}
    assert len(ceilings.copy_bytes_per_s) == PROCESSES
    assert min(ceilings.copy_bytes_per_s) > 0
    assert (ceilings.device, ceilings.matrix_products[0].precision, ceilings.transfers) == (
        "cpu",
        "fp32",
        [],
    )
    assert calibration.environment["torch"] == str(torch.__version__)


@pytest.mark.slow
def test_a_link_is_measured_between_all_devices_and_between_the_first_two() -> None:
    link = calibrate(
        [], linked=["cpu"] * 3, machine="here", link_plan=TINY_LINK, processes=PROCESSES
    ).link

    assert link is not None
    assert (link.backend, link.devices) == ("gloo", ["cpu"] * 3)
    found = [(one.operation, one.devices, one.bytes) for one in link.operations]
    together = ["all-reduce", "all-gather", "reduce-scatter"]
    of_two = [*together, "point-to-point"]
    sizes = TINY_LINK.payload_bytes
    # Numbers of four bytes that three devices share equally.
    assert found == [(each, 2, size) for each in of_two for size in sizes] + [
        (each, 3, size // 12 * 12) for each in together for size in sizes
    ]
    assert all(len(one.times_s) == PROCESSES and min(one.times_s) > 0 for one in link.operations)


@pytest.mark.slow
def test_a_rank_that_fails_is_named_with_its_reason() -> None:
    broken = LinkPlan(payload_bytes=(-8,), budget_s=0.0, timing_s=0.0)

    with pytest.raises(
        MachineError, match=r"the link between cpu and cpu failed: rank [01]: .*negative dimension"
    ):
        calibrate([], linked=["cpu", "cpu"], machine="here", link_plan=broken, processes=1)


@pytest.mark.parametrize(
    ("device", "plan", "said"),
    [
        ("xpu", TINY, "cannot calibrate xpu: xpu is not present"),
        (
            "cpu",
            small(product_shapes=((-1, 1, 1),)),
            "calibrating cpu failed: .*negative dim.*same command again",
        ),
        ("cpu", _KillsItsReader(**vars(TINY)), "calibrating cpu: its process was killed"),
    ],
)
def test_a_process_that_cannot_measure_is_an_error_in_one_line(
    device: str, plan: Plan, said: str
) -> None:
    with pytest.raises(MachineError, match=said):
        calibrate([device], machine="here", plan_of=lambda _: plan, processes=1)


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


def test_sizes_that_memory_has_no_room_for_are_left_out_and_matrices_shrink_until_they_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = SimpleNamespace(available=20 * KIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert [one.bytes for one in measure_transfers(CPU, TINY)] == [4 * KIB, 4 * KIB]
    assert [one.shape for one in measure_products(CPU, "fp32", TINY)] == [(16, 16, 16), (16, 8, 32)]

    free.available = KIB
    assert measure_transfers(CPU, TINY) == []


def test_products_of_every_precision_can_be_measured() -> None:
    for precision in DTYPES:
        products = measure_products(CPU, precision, TINY)
        assert [(one.precision, one.shape) for one in products] == [
            (precision, shape) for shape in TINY.product_shapes
        ]
        assert all(one.flops_per_s[0] > 0 for one in products)


def test_processes_are_put_together_and_what_one_could_not_measure_is_left_out() -> None:
    whole = make_calibration(["cuda"]).ceilings[0]
    products, transfers = whole.matrix_products[1:], whole.transfers[:-1]
    less = Ceilings(**{**dict(whole), "matrix_products": products, "transfers": transfers})

    merged = merge([whole, less])

    assert [one.precision for one in merged.matrix_products] == [one.precision for one in products]
    for product, alike in zip(merged.matrix_products, products, strict=True):
        assert product.flops_per_s == alike.flops_per_s * 2
    assert [one.bytes for one in merged.transfers] == [one.bytes for one in transfers]
    assert {len(one.times_s) for one in merged.transfers} == {2 * len(whole.transfers[0].times_s)}


def test_the_command_links_what_is_present_and_says_which_devices_it_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_calibration(["cpu", "cuda"], linked=2)
    asked: list[list[str]] = []

    def measure(_devices: list[str], *, linked: list[str], machine: str) -> Calibration:
        asked.append(linked)
        return made

    cuda = Accelerator(backend="cuda", name="", memory_gib=1)
    two = Machine(cpu_model="", cores=1, memory_gib=1, accelerators=(cuda, cuda))
    monkeypatch.setattr("gpu_report.commands.measuring.measure_ceilings", measure)
    for module in ("commands.measuring", "study.machine"):
        monkeypatch.setattr(f"gpu_report.{module}.find_machine", lambda: two)
    path = tmp_path / "calibration.json"

    devices = "--devices cpu cuda --linked cuda cuda:1 cuda:2"
    status = main(f"calibrate --machine={two.id} {devices} --calibration={path}".split())

    assert status == 0
    assert asked == [["cuda", "cuda:1"]]
    assert CALIBRATION_FILE.read(path) == made
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in said] == ["cpu", "cuda"]
