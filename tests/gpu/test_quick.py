"""On an accelerator the call takes a model there and back, leaves no memory in use, and sees what
limits it.
"""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from gpu_report import profile

X, Y = torch.randn(256, 512), torch.randint(0, 10, (256,))


OUT_OF_RANGE = """
import torch
from gpu_report import profile
from gpu_report.errors import ProfileError

model, batch = torch.nn.Linear(8, 4), (torch.randn(16, 8), torch.full((16,), 9))
before = model.weight.detach().clone()
try:
    profile(model, batch, loss=torch.nn.functional.cross_entropy)
except ProfileError as error:
    print(torch.equal(model.weight, before), error)
"""


def small_model() -> nn.Module:
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(8)), nn.Linear(512, 10)
    )


def train_once(model: nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> None:
    cross_entropy(model(inputs), target).backward()  # type: ignore[no-untyped-call]


def accelerator() -> torch.device:
    found = torch.accelerator.current_accelerator()
    assert found is not None
    return found


def test_a_model_on_the_cpu_is_trained_on_the_accelerator_and_comes_back_as_it_was() -> None:
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    train_once(model, X, Y)
    optimizer.step()
    before = [(each.data_ptr(), each.detach().clone()) for each in model.parameters()]
    moments = [values["exp_avg"].clone() for values in optimizer.state.values()]

    found = profile(model, (X, Y), loss=cross_entropy, optimizer=optimizer)

    assert found.measured.device.startswith(accelerator().type)
    assert found.measured.memory_kind == "allocator"
    for each, (place, value) in zip(model.parameters(), before, strict=True):
        assert each.data_ptr() == place
        assert torch.equal(each, value)
    assert all(
        torch.equal(values["exp_avg"], moment)
        for values, moment in zip(optimizer.state.values(), moments, strict=True)
    )


def test_the_memory_in_use_and_the_random_numbers_are_those_before() -> None:
    if accelerator().type != "cuda":
        pytest.skip("needs CUDA's allocator")
    model = small_model().to("cuda")
    batch = X.cuda(), Y.cuda()
    train_once(model, *batch)  # libraries keep memory from their first call on
    gc.collect()  # what other tests have left is not freed meanwhile
    allocated = torch.cuda.memory_allocated()
    numbers = torch.cuda.get_rng_state()

    profile(model, batch, loss=cross_entropy)

    gc.collect()
    assert torch.cuda.memory_allocated() == allocated
    assert torch.equal(torch.cuda.get_rng_state(), numbers)


def test_a_batch_on_the_cpu_is_copied_to_the_device_that_is_named() -> None:
    model = small_model().to(accelerator())

    found = profile(model, (X, Y), loss=cross_entropy, device=accelerator().type)

    assert found.measured.device.startswith(accelerator().type)
    assert X.device.type == "cpu"


def test_many_small_kernels_are_limited_by_launching_and_large_ones_by_kernels() -> None:
    if accelerator().type != "cuda":
        pytest.skip("needs a trace with kernels")
    small = nn.Sequential(*(nn.Linear(8, 8) for _ in range(100)))
    large = nn.Sequential(*(nn.Linear(8192, 8192) for _ in range(4)))
    few, many = (
        (torch.randn(4, 8), torch.randn(4, 8)),
        (torch.randn(4096, 8192), torch.randn(4096, 8192)),
    )

    assert profile(small, few, loss=mse_loss).limit == "launching"
    assert profile(large, many, loss=mse_loss).limit == "kernels"


def test_a_step_of_ones_own_is_on_the_device_that_it_uses() -> None:
    model = small_model()

    assert profile(step=lambda: train_once(model, X, Y)).measured.device == "cpu"

    model.to(accelerator())
    batch = X.to(accelerator()), Y.to(accelerator())
    assert profile(step=lambda: train_once(model, *batch)).measured.device.startswith(
        accelerator().type
    )


def test_memory_that_each_step_keeps_on_the_device_is_named_first() -> None:
    model, kept = small_model().to(accelerator()), []
    batch = X.to(accelerator()), Y.to(accelerator())

    def step() -> None:
        train_once(model, *batch)
        kept.append(torch.empty(2**20, device=accelerator()))

    assert profile(step=step, seconds=20).suggestions[0].rule == "growing memory"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA's traces name the GPU")
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="only CUDA has an assertion on the device"
)
def test_after_a_target_out_of_range_it_says_that_the_device_is_lost_to_this_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OUT_OF_RANGE], capture_output=True, text=True, check=True
    )

    assert ended.stdout.startswith(
        "True cuda:0: AcceleratorError: CUDA error: device-side assert triggered; this process"
    )


def test_the_page_names_the_gpu_and_has_its_kernels(tmp_path: Path) -> None:
    found = profile(small_model(), (X, Y), loss=cross_entropy)

    found.to_html(tmp_path / "found.html")

    text = (tmp_path / "found.html").read_text("utf-8")
    assert found.hardware == torch.cuda.get_device_name()
    assert found.hardware in text
    assert 'id="kernels-table"' in text
