"""The transformer has the size it claims, and reads the texts of the LSTM."""

import torch

from gpu_report.workloads.lstm import LSTMClassification
from gpu_report.workloads.transformer import TransformerClassification
from tests.unit.workloads.training import all_of


def small_transformer() -> TransformerClassification:
    return TransformerClassification(size="default", seed=0, train_samples=16, test_samples=90)


def test_its_layers_start_with_different_weights() -> None:
    first, second, *_ = small_transformer().checkpointed_blocks(small_transformer().build_model())

    assert not torch.equal(first.linear1.weight, second.linear1.weight)  # type: ignore[arg-type,union-attr]


def test_it_reads_the_texts_of_the_lstm() -> None:
    lstm = LSTMClassification(size="default", seed=0, train_samples=16, test_samples=90)

    for ours, theirs in zip(
        all_of(small_transformer().test_data()), all_of(lstm.test_data()), strict=True
    ):
        assert torch.equal(ours, theirs)
