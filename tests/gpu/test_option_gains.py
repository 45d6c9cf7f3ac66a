"""On an NVIDIA GPU the captured step of one's own model trains as the eager one does, or is a row with the reason."""

import pytest
import torch
from torch import Tensor, nn

from gpu_report import compare_options
from tests.unit.own import own_model

MODULE = "tests.unit.own.own_model"

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need an NVIDIA GPU")


class AsksTheDevice(nn.Module):
    """Its forward pass waits for the device, which no capture allows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = own_model.build_images()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs)
        return outputs if outputs.sum().item() else -outputs


def test_graphs_change_no_loss_in_fresh_processes_alone_or_with_others() -> None:
    found = compare_options(
        f"{MODULE}:build_images",
        f"{MODULE}:make_images",
        loss=f"{MODULE}:image_loss",
        options=["fused", "graphs", "compile"],
        processes=2,
        steps=5,
        seconds=0.2,
    )

    graphs, plain = found.individual["graphs"], found._gain(())
    assert [*found.cumulative] == ["fused", "graphs", "compile"], found.summary()
    assert graphs.loss == pytest.approx(plain.loss, rel=1e-3)
    assert found.cumulative["compile"].loss == pytest.approx(plain.loss, rel=1e-2)


def test_a_model_that_is_built_is_captured_in_this_process_and_stays_as_it_was() -> None:
    model = own_model.build_images()
    weights = [each.detach().clone() for each in model.parameters()]

    found = compare_options(
        model, own_model.make_images(), loss=own_model.image_loss, options=["graphs"], steps=5, seconds=0.2
    )

    assert found.individual["graphs"].loss == pytest.approx(found._gain(()).loss, rel=1e-3)
    assert all(torch.equal(each, weight) for each, weight in zip(model.parameters(), weights, strict=True))


def test_a_step_that_cannot_be_captured_is_a_row_with_the_reason_and_the_next_option_is_measured() -> None:
    found = compare_options(
        AsksTheDevice(),
        own_model.make_images(),
        loss=own_model.image_loss,
        options=["graphs", "fused"],
        steps=2,
        seconds=0.2,
    )

    assert not found.individual["graphs"].speedup.count
    assert "captur" in found.individual["graphs"].reason
    assert found.individual["fused"].speedup.count == 1
