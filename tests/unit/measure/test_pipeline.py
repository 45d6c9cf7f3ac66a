"""Processes with a stage of a model each train what one process trains with all of it; with gloo on
the CPU.
"""

import random
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gpu_report.measure.stages import Stages, values_of
from gpu_report.measure.training import build_training, evaluate, train_step, whole_model
from gpu_report.measure.world import ALONE, World, join, leave
from gpu_report.study.variant import Variant
from gpu_report.workloads.unet import UNet, UNetSegmentation
from tests.unit.measure.test_ranks import carried_out_by, measured
from tests.unit.measure.tiny_workloads import InPieces, OfDrawnSamples
from tests.unit.measure.trainings import build, train_quietly

CPU = torch.device("cpu")
STEPS = 3


class SmallUNet(UNetSegmentation):
    def build_model(self) -> nn.Module:
        return UNet(base_channels=2)


CASES: dict[str, dict[str, Any]] = {
    "one part": {},
    "two parts": {"accumulation": 2},
    "four parts": {"accumulation": 4},
    "eight parts": {"accumulation": 8},
    "bf16": {"precision": "bf16", "accumulation": 2},
    "resident": {"options": "resident", "accumulation": 4},
    "samples drawn by Python": {"workload": "drawn", "accumulation": 2},
    "U-Net": {"workload": "unet"},
    "U-Net, channels last": {"workload": "unet", "options": "channelslast"},
}


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Any]:
    """By rank and case: the losses of the steps, the model's parameters after them, and its
    evaluation.
    """
    return carried_out_by(request.param, _train_as_rank, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("case", CASES)
def test_it_trains_what_one_process_trains(case: str, found: dict[int, Any]) -> None:
    losses, values, evaluated = _train("single", CASES[case], ALONE)
    tolerance = {"bf16": 1e-2, "U-Net": 1e-4, "U-Net, channels last": 1e-4}.get(case, 1e-6)
    assert found[len(found) - 1][case][0] == pytest.approx(losses, rel=tolerance)
    for rank in found:
        assert found[rank][case][2] == pytest.approx(evaluated, rel=tolerance)
        for ours, theirs in zip(found[rank][case][1], values, strict=True):
            assert torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance), rank


def _train_as_rank(ranks: int) -> dict[str, Any]:
    world = join(CPU, expected=ranks, patience_s=60)
    try:
        return {case: _train("pipeline", fields, world) for case, fields in CASES.items()}
    finally:
        leave(world)


def _train(
    strategy: str, fields: dict[str, Any], world: World
) -> tuple[Sequence[float], list[Tensor], tuple[float | None, float | None]]:
    variant = Variant(
        **{
            "workload": "tiny",
            "device": "cpu",
            "batch_size": 8,
            "epochs": 1,
            "steps_per_epoch": STEPS,
            **fields,
        },
        strategy=strategy,
        devices=world.size,
    )
    random.seed(0)
    workload: InPieces | SmallUNet = InPieces(size="default", seed=0)
    if variant.workload == "drawn":
        workload = OfDrawnSamples(size="default", seed=0)
    if variant.workload == "unet":
        workload = SmallUNet(size="32px", seed=0, train_samples=16, test_samples=8)
    training = build_training(
        workload, variant, device=CPU, seed=0, steps_per_epoch=STEPS, world=world
    )
    losses = [train_step(training, batch).item() for batch in training.train_loader]
    model = training.model
    with whole_model(training):
        pieces = chain(*model.stages) if isinstance(model, Stages) else workload.pieces(model)
        return (
            losses,
            [value.detach().clone() for piece in pieces for value in values_of(piece)],
            evaluate(training),
        )


def test_its_record_has_each_sample_once_and_the_losses_of_the_last_stage(tmp_path: Path) -> None:
    record = measured("InPieces", tmp_path, strategy="pipeline", accumulation=2)
    assert record.status == "ok", record.reason
    (ours,) = record.repetitions
    alone = build(InPieces(size="default", seed=0), accumulation=2, steps_per_epoch=4)
    assert len({rank.parameters_sha256 for rank in ours.ranks}) == 1
    for epoch, expected in zip(ours.epochs, train_quietly(alone, epochs=3), strict=True):
        assert epoch.samples == expected.samples == 16
        assert epoch.train_losses == pytest.approx(expected.train_losses, rel=1e-5)
        assert epoch.test_loss == pytest.approx(expected.test_loss, rel=1e-5)
    assert record.profile is not None
    assert len(list((tmp_path / "trace").iterdir())) == 2
    assert record.workload is not None
    assert (len(record.workload.pieces_of_stages), sum(record.workload.pieces_of_stages)) == (2, 4)


@pytest.mark.slow
def test_what_a_stage_raises_is_in_the_record(tmp_path: Path) -> None:
    record = measured("FailsInTheLastPiece", tmp_path, strategy="pipeline")
    assert record.status == "failed"
    assert "rank 1: ArithmeticError: no such number" in record.reason
