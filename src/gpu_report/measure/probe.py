"""What PyTorch finds on this machine, printed as JSON: `python -m gpu_report.measure.probe`.

It is a process of its own because it touches the device, which a process that forks trainings later
must not do.
"""

import importlib.util
import json
import sys
from typing import Any

from gpu_report.errors import MachineError

_GIB = 2**30


def probe() -> dict[str, Any]:
    """PyTorch's version (None where it is not installed), every accelerator, and why there is none.

    `accelerators` lists `backend`, `name` and `memory_gib` in the order of the device indices;
    `reason` is empty where there is at least one. `built_for` is the kind of accelerator this
    PyTorch supports, present or not, or None.
    """
    if importlib.util.find_spec("torch") is None:
        return {
            "torch": None,
            "built_for": None,
            "accelerators": [],
            "reason": "PyTorch is not installed",
        }
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    count = torch.accelerator.device_count() if found else 0
    accelerators = (
        [describe_accelerator(found.type, index) for index in range(count)] if found else []
    )
    built_for = torch.accelerator.current_accelerator(check_available=False)
    return {
        "torch": torch.__version__,
        "built_for": built_for.type if built_for else None,
        "accelerators": accelerators,
        "reason": "" if accelerators else why_no_accelerator(),
    }


def require_pytorch() -> None:
    """Raise MachineError where PyTorch is not installed, without importing it."""
    if importlib.util.find_spec("torch") is None:
        raise MachineError("PyTorch is not installed here; install it with: pip install torch")


def why_no_accelerator() -> str:
    """Why PyTorch has no accelerator here, in one line; touches the device."""
    import torch

    built_for = torch.accelerator.current_accelerator(check_available=False)
    if built_for is None:
        return f"torch {torch.__version__} was built without support for any accelerator"
    try:
        torch.zeros(1, device=built_for)
    except (RuntimeError, AssertionError) as error:
        said = (
            (str(error).strip().splitlines() or [type(error).__name__])[0]
            .partition(". ")[0]
            .rstrip(".")
        )
        return f"torch {torch.__version__} was built for {built_for.type}, but: {said}"
    return (
        f"torch {torch.__version__} was built for {built_for.type}, but counts no device of that "
        "kind"
    )


def why_not_present(device_name: str) -> str:
    """Why PyTorch cannot train on the device here, in one line; empty if it can. Touches the
    device.

    Raises:
        MachineError: PyTorch knows no device of that name.
    """
    import torch

    try:
        device = torch.device(device_name)
    except RuntimeError as error:
        raise MachineError(
            f"{device_name!r} is not a device PyTorch knows; use for instance cpu, cuda or cuda:1"
        ) from error
    if device.type == "cpu":
        return ""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return f"{device_name} is not present: {why_no_accelerator()}"
    if accelerator.type != device.type:
        return (
            f"{device_name} is not present: torch {torch.__version__} works with "
            f"{accelerator.type} here"
        )
    count = torch.accelerator.device_count()
    if (device.index or 0) >= count:
        return f"{device_name} is not present: torch {torch.__version__} counts {count} of its kind"
    return ""


def describe_accelerator(backend: str, index: int) -> dict[str, Any]:
    """The name and the memory of one accelerator; a backend that names no devices gets its own
    name.
    """
    import torch

    module = torch.get_device_module(backend)
    properties = (
        module.get_device_properties(index) if hasattr(module, "get_device_properties") else None
    )
    total_bytes = getattr(properties, "total_memory", None)
    if total_bytes is None:
        # Apple's backend has no properties; what it may use at most is the nearest figure it gives.
        total_bytes = (
            module.recommended_max_memory() if hasattr(module, "recommended_max_memory") else 0
        )
    return {
        "backend": backend,
        "name": getattr(properties, "name", backend),
        "memory_gib": round(total_bytes / _GIB, 1),
    }


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
    sys.stdout.write("\n")
