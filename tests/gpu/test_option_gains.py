"""On an NVIDIA GPU the captured step of a user's model trains like the eager one, or its row gives
the reason.
"""

import pytest
import torch

from gpu_report import compare_options

MODULE = "tests.unit.user_training.own_model"

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="CUDA graphs need an NVIDIA GPU"
)


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


def test_a_step_that_cannot_be_captured_has_a_reason_and_the_next_option_is_measured() -> None:
    found = compare_options(
        f"{MODULE}:build_asking",
        f"{MODULE}:make_images",
        loss=f"{MODULE}:image_loss",
        options=["graphs", "fused"],
        processes=1,
        steps=2,
        seconds=0.2,
    )

    assert not found.individual["graphs"].speedup.count
    assert found.individual["graphs"].reason.startswith("graphs: the step cannot be captured: ")
    assert found.individual["fused"].speedup.count == 1
