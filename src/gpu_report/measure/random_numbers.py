"""What draws random numbers, left as it was."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def keep_random_numbers(device: torch.device) -> Iterator[None]:
    """Afterwards Python, NumPy and PyTorch, on the host and on the device, draw as if nothing had
    been drawn inside.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state(legacy=False)
    indices = [] if device.type == "cpu" else [device.index or 0]
    try:
        with torch.random.fork_rng(devices=indices, device_type=device.type):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
