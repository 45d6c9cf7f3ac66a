"""What holds for every built-in network: its size, its output, data that can be drawn again, and
that it learns.
"""

from typing import Any

import pytest
import torch

from gpu_report.workloads import gpt2, texts, textures, unet
from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.gpt2 import GPT2LanguageModel
from gpu_report.workloads.lstm import LSTMClassification
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.transformer import TransformerClassification
from gpu_report.workloads.unet import UNetSegmentation
from tests.unit.workloads.training import all_of, losses_of_training, parameters_of

FEW: dict[str, Any] = {"seed": 0, "train_samples": 8, "test_samples": 8}
PARAMETERS = [
    (UNetSegmentation(size="32px", **FEW), 31_037_763),
    (LSTMClassification(size="default", **FEW), 2_381_827),
    (TransformerClassification(size="default", **FEW), 3_202_307),
    (TransformerClassification(size="default", data="cifar10", **FEW), 3_191_050),
    (ResNet18Classification(size="default", **FEW), 11_173_962),
    (ResNet50Classification(size="default", **FEW), 23_520_842),
    (ResNet50Classification(size="224px", **FEW), 23_528_522),
    (CNNClassification(size="medium", **FEW), 406_674),
    (GPT2LanguageModel(size="tiny", **FEW), 3_323_648),
]
LEARNING = [
    (UNetSegmentation(size="32px", **{**FEW, "train_samples": 2}), (unet.CLASSES, 32, 32), 4),
    (LSTMClassification(size="default", **FEW), (texts.CLASSES,), 6),
    (TransformerClassification(size="default", **FEW), (texts.CLASSES,), 6),
    (ResNet18Classification(size="default", **FEW), (textures.CLASSES,), 4),
    (CNNClassification(size="small", **{**FEW, "train_samples": 64}), (textures.CLASSES,), 8),
    (GPT2LanguageModel(size="tiny", **FEW), (64, gpt2.VOCABULARY), 3),
]


def name_of(value: object) -> str:
    return getattr(value, "title", "")


networks = pytest.mark.parametrize(("workload", "output", "steps"), LEARNING, ids=name_of)


@pytest.mark.parametrize(("workload", "parameters"), PARAMETERS, ids=name_of)
def test_a_network_has_the_parameters_that_it_claims(workload: Any, parameters: int) -> None:
    assert parameters_of(workload) == parameters


def test_the_large_encoder_has_the_dimensions_of_bert_large() -> None:
    with torch.device("meta"):  # without its 1.2 GB of weights
        assert parameters_of(TransformerClassification(size="bertlarge", **FEW)) == 302_482_435


@networks
def test_training_and_held_out_samples_are_different_and_reproducible(
    workload: Any, output: tuple[int, ...], steps: int
) -> None:
    train, held_out = (all_of(data)[0] for data in (workload.train_data(), workload.test_data()))

    assert torch.equal(train, all_of(workload.train_data())[0])
    assert torch.equal(held_out, all_of(workload.test_data())[0])
    assert not any(torch.equal(one, other) for one, other in zip(train, held_out, strict=False))


@networks
def test_a_network_learns(workload: Any, output: tuple[int, ...], steps: int) -> None:
    losses = losses_of_training(workload, steps=steps)

    assert losses[-1] < losses[0]


@networks
def test_every_sample_gets_a_score_per_class(
    workload: Any, output: tuple[int, ...], steps: int
) -> None:
    inputs, _ = all_of(workload.test_data())

    assert workload.build_model()(inputs[:2]).shape == (2, *output)
