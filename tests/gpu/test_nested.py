"""Nested batches train on a GPU as pairs of tensors do, with every option that handles batches."""

from collections.abc import Iterator

import pytest
import torch

from gpu_report.workloads.protocol import with_defaults
from tests.gpu.trainings import build, losses
from tests.unit.measure.short_workloads import ByStep, InPairs, Short

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="these options are CUDA's"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(autouse=True)
def _compile_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("nested", [ByStep, InPairs])
@pytest.mark.parametrize(
    "options",
    [
        "pinned",
        "prefetch",
        "resident",
        "graphs",
        "compile",
        "prefetch+fused+graphs",
        "resident+graphs+compile",
    ],
)
def test_a_nested_batch_trains_as_the_pair_of_tensors_does(nested: type, options: str) -> None:
    expected = losses(build(with_defaults(Short())))

    assert losses(build(with_defaults(nested()), options=options)) == pytest.approx(
        expected, rel=1e-4
    )


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
def test_a_step_of_its_own_trains_in_every_precision(precision: str) -> None:
    expected = losses(build(with_defaults(Short())))

    assert losses(build(with_defaults(ByStep()), precision=precision)) == pytest.approx(
        expected, rel=0.05
    )
