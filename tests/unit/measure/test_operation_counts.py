"""Operations and bytes of a step, against counts by hand."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import TensorDataset

from gpu_report.measure.operation_counts import _RECURRENT, _Traffic, count_work
from gpu_report.measure.training import eager_step
from gpu_report.workloads.protocol import TrainingWorkload
from tests.unit.measure.tiny_workloads import PointData, Tiny
from tests.unit.measure.trainings import build, pictures, tiny

BATCH_SIZE = 4


class _LastOutput(nn.Module):
    """Characters of a one-directional LSTM, of which the last output counts."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size=3, hidden_size=5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(inputs)[0][:, -1])
        return scores


class Recurrent(Tiny):
    """Sequences of 7 vectors of 3 numbers."""

    def build_model(self) -> nn.Module:
        return _LastOutput()

    def train_data(self) -> PointData:
        return cast(
            "PointData", TensorDataset(torch.randn(8, 7, 3), torch.zeros(8, dtype=torch.int64))
        )


class OneConvolution(Tiny):
    """Pictures of 6 x 6 pixels and 3 channels; a convolution of 3 x 3 to 2 channels, whose mean is
    the score.
    """

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def train_data(self) -> PointData:
        return cast(
            "PointData", TensorDataset(torch.randn(8, 3, 6, 6), torch.zeros(8, dtype=torch.int64))
        )


def test_a_perceptrons_layer_takes_two_operations_per_weight_and_sample_in_each_product() -> None:
    work = count_work(build(tiny()))
    assert work is not None
    forward = 2 * BATCH_SIZE * (4 * 8 + 8 * 2)
    weight_gradients, input_gradients = forward, 2 * BATCH_SIZE * 8 * 2
    assert work.flops == forward + weight_gradients + input_gradients
    assert work.samples == BATCH_SIZE
    assert set(work.flops_by_operator) == {"aten::addmm", "aten::mm"}


def test_a_convolution_takes_two_operations_per_weight_and_place() -> None:
    work = count_work(build(OneConvolution(size="default", seed=0)))
    assert work is not None
    forward = 2 * BATCH_SIZE * (3 * 3 * 3 * 2) * (4 * 4)
    assert work.flops_by_operator == {
        "aten::convolution": forward,
        "aten::convolution_backward": forward,
    }


def test_an_lstm_takes_two_operations_per_weight_sample_and_time_step() -> None:
    work = count_work(build(Recurrent(size="default", seed=0)))
    assert work is not None
    forward = 2 * BATCH_SIZE * 7 * (4 * 5) * (3 + 5)
    assert work.flops_by_operator["aten::mkldnn_rnn_layer"] == forward
    assert work.flops_by_operator["aten::mkldnn_rnn_layer_backward"] == 2 * forward


def test_cudnn_s_lstm_counts_as_the_same_cells_on_the_cpu() -> None:
    forward = _RECURRENT[torch.ops.aten._cudnn_rnn]
    backward = _RECURRENT[torch.ops.aten._cudnn_rnn_backward]
    inputs, weights = (7, 4, 3), [(20, 3), (20, 5), (20,), (20,), (20, 3), (20, 5), (20,), (20,)]
    both_directions = 2 * (2 * 4 * 7 * 20 * (3 + 5))
    assert forward(inputs, weights, 4, None, out_shape=None) == both_directions
    assert backward(inputs, weights, 4, None, out_shape=None) == 2 * both_directions


def test_what_checkpointing_computes_again_is_counted_again_and_accumulating_costs_nothing() -> (
    None
):
    def flops(workload: TrainingWorkload, **fields: Any) -> float:
        work = count_work(build(workload, **fields))
        assert work is not None
        return work.flops

    assert flops(pictures(), options="checkpoint") > flops(pictures())
    assert flops(tiny(), accumulation=2) == flops(tiny())


def test_operators_that_compute_without_a_formula_are_named() -> None:
    work = count_work(build(tiny()))
    assert work is not None
    assert work.uncounted_operators["aten::tanh"] == 1
    assert not work.uncounted_operators.keys() & work.flops_by_operator.keys()
    assert (
        not {"aten::t", "aten::detach", "aten::empty", "aten::zeros_like"}
        & work.uncounted_operators.keys()
    )


FLOATS = torch.ones(100)


@pytest.mark.parametrize(
    ("calculation", "count"),
    [
        (lambda: FLOATS + FLOATS, 3 * 400),
        (lambda: FLOATS.clone().add_(1), (2 + 2) * 400),
        (lambda: FLOATS.reshape(10, 10).t()[0], 0),
        (lambda: torch.empty(100), 0),
        (lambda: torch.zeros_like(FLOATS), 400),
        (lambda: FLOATS.to(torch.bfloat16), 400 + 200),
        (lambda: torch._foreach_add([FLOATS, FLOATS], 1.0), 2 * 2 * 400),
        (lambda: torch._foreach_mul_([torch.empty(100)], 1.0), 2 * 400),
        (lambda: torch.empty(100).copy_(FLOATS), 2 * 400),
        (lambda: torch.empty(1).expand(100) + FLOATS, 4 + 2 * 400),
        (FLOATS[0].item, 0),
    ],
)
def test_bytes_are_what_operators_read_and_write(
    calculation: Callable[[], object], count: int
) -> None:
    with (traffic := _Traffic()):
        calculation()

    assert traffic.bytes == count


def test_counting_does_the_step_that_training_does() -> None:
    counted, trained = build(tiny()), build(tiny())
    count_work(counted)
    batch = [
        torch.stack(part)
        for part in zip(*(trained.train_data[index] for index in range(BATCH_SIZE)), strict=True)
    ]
    eager_step(trained, batch)
    for one, other in zip(counted.model.parameters(), trained.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_first_loss_scale_that_overflows_leaves_out_no_work() -> None:
    usual, high = (
        count_work(build(tiny(), precision="fp16", options=options))
        for options in ("none", "highscale")
    )

    assert usual is not None
    assert usual == high


class _OpaqueOptimizer(SGD):
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        raise NotImplementedError("no dispatch mode may look in here")


class Opaque(Tiny):
    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return _OpaqueOptimizer(model.parameters(), lr=0.1)


def test_a_step_that_cannot_be_looked_into_has_no_count() -> None:
    assert count_work(build(Opaque(size="default", seed=0))) is None
