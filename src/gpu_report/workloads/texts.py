"""Short texts in three styles, which differ in how often they use each character, and what
workloads on them share.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch

from gpu_report.workloads.classification import Classification, TensorPairs
from gpu_report.workloads.synthetic import (
    CEILING_DESCRIPTION,
    Doubles,
    Integers,
    Split,
    draw_blends,
    stream,
)

CLASSES: Final = 3
VOCABULARY: Final = 100
SEQUENCE_LENGTH: Final = 64
STYLE_CONTRAST: Final = 0.5
"""Standard deviation, between styles, of the logarithm of how often a character occurs."""


@dataclass(frozen=True, kw_only=True)
class TextClassification(Classification):
    """All of a workload but its title and its model; one size, default: sequences of 64
    characters.
    """

    train_samples: int = 2000
    test_samples: int = 400
    learning_rate: float = 1e-3

    sample_description: ClassVar[str] = (
        f"{SEQUENCE_LENGTH} characters out of {VOCABULARY}, {CLASSES} classes"
    )
    data_description: ClassVar[str] = (
        "Generated: texts in three styles that use the same characters in different frequencies; "
        f"{CEILING_DESCRIPTION}."
    )

    def labelled(self, split: Split, samples: int) -> TensorPairs:
        return styled_texts(samples=samples, seed=self.seed, split=split)


def styled_texts(*, samples: int, seed: int, split: Split) -> TensorPairs:
    """Texts that take each character from one of two styles, as often as the text's shares say."""
    blends = draw_blends(samples=samples, classes=CLASSES, seed=seed, split=split)
    draws = stream(seed=seed, split=split, quantity="characters").random(
        (samples, SEQUENCE_LENGTH, 2)
    )
    in_first = draws[:, :, 0] < blends.share[:, None]
    styles = np.where(in_first, blends.first[:, None], blends.second[:, None])
    return TensorPairs(
        torch.from_numpy(_characters(styles, draws[:, :, 1])), torch.from_numpy(blends.label)
    )


def _characters(styles: Integers, draws: Doubles) -> Integers:
    """The character of each place: where a draw from 0 to 1 falls among the cumulative frequencies
    of its style.
    """
    characters = np.zeros_like(styles)
    for style, frequencies in enumerate(style_frequencies()):
        found = np.searchsorted(frequencies.cumsum()[:-1], draws, side="right")
        characters = np.where(styles == style, found, characters)
    return characters


def style_frequencies() -> Doubles:
    """How often each style uses each character (classes, vocabulary); part of the task, so the same
    for every seed.
    """
    weights = np.exp(
        STYLE_CONTRAST * np.random.default_rng(CLASSES).standard_normal((CLASSES, VOCABULARY))
    )
    frequencies: Doubles = weights / weights.sum(axis=1, keepdims=True)
    return frequencies
