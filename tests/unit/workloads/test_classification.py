"""Accuracy and chance are shares of samples."""

import torch

from gpu_report.workloads.classification import TensorPairs, accuracy, most_frequent_share


def test_accuracy_is_the_share_of_right_answers() -> None:
    output = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0], [0.0, 3.0]])

    assert accuracy(output, torch.tensor([0, 1, 1, 1])) == 0.75


def test_chance_names_the_most_frequent_class() -> None:
    assert most_frequent_share(torch.tensor([2, 2, 0, 1])) == 0.5


def test_pairs_are_inputs_with_their_targets() -> None:
    pairs = TensorPairs(torch.arange(3), torch.arange(3) * 10)

    assert len(pairs) == 3
    assert torch.stack(pairs[2]).tolist() == [2, 20]
