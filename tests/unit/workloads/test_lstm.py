"""The LSTM has the size it claims, and its texts can be distinguished."""

import numpy as np
import pytest
import torch

from gpu_report.workloads.lstm import LSTMClassification
from gpu_report.workloads.synthetic import ACCURACY_CEILING, draw_blends
from gpu_report.workloads.texts import SEQUENCE_LENGTH, VOCABULARY, style_frequencies, styled_texts
from tests.unit.workloads.training import all_of


def small_lstm(**settings: int) -> LSTMClassification:
    return LSTMClassification(
        size="default", seed=0, **{"train_samples": 16, "test_samples": 90, **settings}
    )


def test_texts_hold_characters_of_the_vocabulary() -> None:
    texts, labels = all_of(small_lstm().test_data())

    assert texts.shape == (90, SEQUENCE_LENGTH)
    assert 0 <= texts.min() < texts.max() < VOCABULARY
    assert set(labels.tolist()) == {0, 1, 2}


def test_a_style_uses_its_characters_as_often_as_it_should() -> None:
    texts = styled_texts(samples=3000, seed=0, split="train").inputs.numpy()
    blends = draw_blends(samples=3000, classes=3, seed=0, split="train")
    used = np.bincount(texts[blends.first == 0].ravel(), minlength=VOCABULARY)

    assert np.corrcoef(used, style_frequencies()[0])[0, 1] > 0.9
    assert style_frequencies().sum(axis=1) == pytest.approx(np.ones(3))


def test_counting_characters_comes_near_the_ceiling_but_not_above() -> None:
    pairs = styled_texts(samples=3000, seed=0, split="test")
    log_odds = torch.from_numpy(np.log(style_frequencies()))[:, pairs.inputs].sum(dim=2)
    accuracy = (log_odds.argmax(dim=0) == pairs.targets).float().mean().item()

    assert 0.6 < accuracy < ACCURACY_CEILING + 0.02
