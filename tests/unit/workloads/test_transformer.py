"""The transformer has the size it claims, and reads the texts of the LSTM."""

import torch

from gpu_report.workloads.lstm import LSTMClassification
from gpu_report.workloads.texts import CLASSES, SEQUENCE_LENGTH
from gpu_report.workloads.transformer import TransformerClassification
from tests.unit.workloads.training import all_of, losses_of_training, parameters_of


def small_transformer() -> TransformerClassification:
    return TransformerClassification(size="default", seed=0, train_samples=16, test_samples=90)


def test_the_transformer_has_3202307_parameters() -> None:
    assert parameters_of(small_transformer()) == 3_202_307


def test_every_text_gets_a_score_per_class() -> None:
    model = small_transformer().build_model()

    assert model(torch.zeros(2, SEQUENCE_LENGTH, dtype=torch.int64)).shape == (2, CLASSES)


def test_its_layers_start_with_different_weights() -> None:
    first, second, *_ = small_transformer().checkpointed_blocks(small_transformer().build_model())

    assert not torch.equal(first.linear1.weight, second.linear1.weight)  # type: ignore[arg-type,union-attr]


def test_it_reads_the_texts_of_the_lstm() -> None:
    lstm = LSTMClassification(size="default", seed=0, train_samples=16, test_samples=90)

    for ours, theirs in zip(all_of(small_transformer().test_data()), all_of(lstm.test_data()), strict=True):
        assert torch.equal(ours, theirs)


def test_the_transformer_learns() -> None:
    losses = losses_of_training(small_transformer(), steps=6)

    assert losses[-1] < losses[0]
