"""What happens inside one process that calibrates a device: matrix products, copies inside it, and
transfers.

Every operation is run until it is warm, repeated for its budget, and its median time taken.
"""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, Final, get_args

import psutil
import torch

from gpu_report.errors import MachineError
from gpu_report.measure.arithmetic import has_capability, set_up_arithmetic, why_not_computed
from gpu_report.measure.calibration_plan import Plan
from gpu_report.measure.environment import device_environment
from gpu_report.measure.probe import describe_accelerator, why_not_present
from gpu_report.measure.run import EnvironmentValue
from gpu_report.measure.timing import HostClock, StepClock, step_clock, synchronize
from gpu_report.records.calibration import Ceilings, Direction, HostMemory, MatrixProduct, Transfer
from gpu_report.study.machine import cpu_has_bf16, cpu_model
from gpu_report.study.options import FP8_CAPABILITY

DTYPES: Final = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
"""Precision -> the type of the matrices; tf32 and fp32 differ in the arithmetic alone."""
_BYTES_PER_VALUE: Final = 4
FP8: Final = "fp8"
_SHARE_OF_FREE_MEMORY: Final = 0.5
_RANDOM_BYTES: Final = 2**20


def measure_ceilings(
    device_name: str, *, threads: int, plan: Plan
) -> tuple[Ceilings, dict[str, EnvironmentValue]]:
    """What the device reaches in this process, each ceiling one value; and its environment.

    Raises:
        MachineError: the device is not present.
    """
    missing = why_not_present(device_name)
    if missing:
        raise MachineError(f"cannot calibrate {device_name}: {missing}")
    torch.set_num_threads(threads)
    device = torch.device(device_name)
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index or 0)
    copy_bytes = plan.copy_bytes
    while 2 * copy_bytes > room(device):
        copy_bytes //= 2
    ceilings = Ceilings(
        device=device_name,
        name=cpu_model() if device.type == "cpu" else _described(device)["name"],
        matrix_products=[
            product
            for precision in precisions_of(device)
            for product in measure_products(device, precision, plan)
        ],
        copy_bytes=copy_bytes,
        copy_bytes_per_s=[_measure_copy(device, copy_bytes, plan)],
        transfers=[] if device.type == "cpu" else measure_transfers(device, plan),
    )
    return ceilings, device_environment(device)


def precisions_of(device: torch.device) -> list[str]:
    """The precisions that the device has hardware for, as variants name them, fp32 first."""
    if device.type == "cpu":
        return ["fp32", "bf16"] if cpu_has_bf16() else ["fp32"]
    found = [precision for precision in DTYPES if not why_not_computed(precision, device)]
    return [*found, FP8] if has_capability(device, FP8_CAPABILITY) else found


def measure_products(device: torch.device, precision: str, plan: Plan) -> list[MatrixProduct]:
    """A product of each shape of the plan, those that memory has no room for halved in every
    direction.

    Of normally distributed numbers: products of zeros draw less power and so run faster than a
    training's.
    """
    set_up_arithmetic(precision, device)
    time_of = partial(
        median_time_s, new_clock=partial(step_clock, device), device=device, plan=plan
    )
    products: list[MatrixProduct] = []
    for shape in plan.product_shapes:
        rows, columns, inner = shape
        while _BYTES_PER_VALUE * (rows * inner + inner * columns + rows * columns) > room(device):
            rows, columns, inner = rows // 2, columns // 2, inner // 2
        work = _product_of(device, precision, (rows, columns, inner))
        if not products:
            time_of(work, budget_s=plan.warm_budget_s)
        time_s = time_of(work, budget_s=plan.product_budget_s)
        products.append(
            MatrixProduct(
                precision=precision,
                size=rows,
                columns=columns,
                inner=inner,
                flops_per_s=[2 * rows * columns * inner / time_s],
            )
        )
    return products


def _product_of(
    device: torch.device, precision: str, shape: tuple[int, int, int]
) -> Callable[[], object]:
    """What multiplies two matrices once; the shape is rows, columns and inner length."""
    rows, columns, inner = shape
    left = torch.randn(rows, inner, device=device)
    right = torch.randn(columns, inner, device=device)
    if precision == FP8:
        of_8_bits = [matrix.to(torch.float8_e4m3fn) for matrix in (left, right)]
        scale = torch.ones((), device=device)
        return partial(
            torch._scaled_mm, of_8_bits[0], of_8_bits[1].t(), scale, scale, out_dtype=torch.bfloat16
        )
    left, right = left.to(DTYPES[precision]), right.t().contiguous().to(DTYPES[precision])
    return partial(torch.mm, left, right, out=left.new_empty(rows, columns))


def _measure_copy(device: torch.device, copy_bytes: int, plan: Plan) -> float:
    """Bytes read and bytes written per second."""
    source = _random_bytes(copy_bytes).to(device)
    target = torch.empty_like(source)
    time_s = median_time_s(
        lambda: target.copy_(source),
        partial(step_clock, device),
        device=device,
        budget_s=plan.copy_budget_s,
        plan=plan,
    )
    return 2 * copy_bytes / time_s


def measure_transfers(device: torch.device, plan: Plan) -> list[Transfer]:
    """Both directions from and to both kinds of host memory, the smallest size first."""
    most = min(room(device), room(torch.device("cpu")) / 2)
    sizes = [size for size in plan.transfer_bytes if size <= most]
    if not sizes:
        return []
    pageable = _random_bytes(max(sizes))
    on_host = {"pageable": pageable}
    if device.type == "cuda":
        on_host["pinned"] = torch.empty(max(sizes), dtype=torch.uint8, pin_memory=True).copy_(
            pageable
        )
    on_device = pageable.to(device)
    return [
        _measure_transfer(direction, memory, on_host[memory][:size], on_device[:size], plan)
        for direction in get_args(Direction)
        for memory in get_args(HostMemory)
        if memory in on_host
        for size in sizes
    ]


def _measure_transfer(
    direction: Direction,
    memory: HostMemory,
    on_host: torch.Tensor,
    on_device: torch.Tensor,
    plan: Plan,
) -> Transfer:
    source, target = (on_host, on_device) if direction == "to device" else (on_device, on_host)

    def copy_and_wait() -> None:
        target.copy_(source, non_blocking=True)
        synchronize(on_device.device)

    time_s = median_time_s(
        copy_and_wait,
        HostClock,
        device=on_device.device,
        budget_s=plan.transfer_budget_s,
        plan=plan,
    )
    return Transfer(direction=direction, memory=memory, bytes=on_host.numel(), times_s=[time_s])


def median_time_s(
    work: Callable[[], object],
    new_clock: Callable[[], StepClock],
    *,
    device: torch.device,
    budget_s: float,
    plan: Plan,
) -> float:
    """Median time of one piece of work by such a clock, repeated until the budget is spent.

    It runs twice before: once to load what it needs, and once to learn how often the budget holds
    it.
    """
    work()
    synchronize(device)
    (once_s,) = _times_s(work, 1, new_clock(), device=device)
    times = min(max(int(budget_s / once_s), plan.least), plan.most)
    return statistics.median(_times_s(work, times, new_clock(), device=device))


def _times_s(
    work: Callable[[], object], times: int, clock: StepClock, *, device: torch.device
) -> list[float]:
    clock.mark()
    for _ in range(times):
        work()
        clock.mark()
    synchronize(device)
    return [time_ms / 1e3 for time_ms in clock.step_times_ms()]


def _random_bytes(count: int) -> torch.Tensor:
    """On the host, in pages of its own; a random block over and over, since drawing every byte
    takes seconds.
    """
    block = torch.randint(0, 256, (min(count, _RANDOM_BYTES),), dtype=torch.uint8)
    return block.repeat(-(-count // block.numel()))[:count]


def room(device: torch.device) -> float:
    """Bytes of free memory that the calibration takes at most."""
    if device.type == "cpu":
        return _SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available
    module = torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        return float(_SHARE_OF_FREE_MEMORY * module.mem_get_info(device)[0])
    return float(_SHARE_OF_FREE_MEMORY * _described(device)["memory_gib"] * 2**30)


def _described(device: torch.device) -> dict[str, Any]:
    return describe_accelerator(device.type, device.index or 0)
