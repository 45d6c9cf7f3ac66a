"""Drawing synthetic data: random streams that a seed fixes, and labels that no model can get all
right.

Every classification workload draws *blends*: a sample mixes two classes, the first with a share s
of 0.6 to 1, and is labelled with the first class with probability s and with the second otherwise.
A model that recognises the first class in every sample is right in 80 % of them on average, and
nothing visible in a sample allows more: the ceiling is in the data, however long the training.
"""

import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from gpu_report.study.machine import core_count

Split = Literal["train", "test"]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SAMPLES_PER_STREAM: Final = 32
SMALLEST_SHARE: Final = 0.6
ACCURACY_CEILING: Final = (1 + SMALLEST_SHARE) / 2
"""Accuracy of a model that always recognises the class with the larger share, on average over data
sets.
"""

CEILING_DESCRIPTION: Final = (
    f"each mixes two classes in shares s and 1 - s, s uniform from {SMALLEST_SHARE} to 1, and is "
    f"labelled in proportion, so that about {ACCURACY_CEILING:.0%} can be right at most".replace(
        "%", " %"
    )
)


def stream(*, seed: int, split: Split, quantity: str) -> np.random.Generator:
    """The random numbers of one quantity of one split, independent of those of every other.

    Row i of an array drawn at once depends on seed, split, quantity and i alone, not on how many
    rows there are.
    """
    return np.random.default_rng([seed, zlib.crc32(f"{split}/{quantity}".encode())])


def pixel_noise(shape: tuple[int, ...], *, deviation: float, seed: int, split: Split) -> Floats:
    """Normal noise for pictures (samples, channels, rows, columns), drawn with every core: it is
    most of all draws.

    Sample i depends on seed, split and i alone.
    """
    noise = np.empty(shape, dtype=np.float32)

    def draw(first: int) -> None:
        drawn = noise[first : first + _SAMPLES_PER_STREAM]
        stream(seed=seed, split=split, quantity=f"noise {first}").standard_normal(
            dtype=np.float32, out=drawn
        )
        drawn *= deviation

    with ThreadPoolExecutor(core_count()) as threads:
        list(threads.map(draw, range(0, shape[0], _SAMPLES_PER_STREAM)))
    return noise


@dataclass(frozen=True, kw_only=True)
class Blends:
    """Which classes each sample mixes, and how it is labelled; one entry per sample."""

    first: Integers
    second: Integers
    share: Floats
    label: Integers


def draw_blends(*, samples: int, classes: int, seed: int, split: Split) -> Blends:
    """Draw two different classes, the share of the first and a label in proportion, for every
    sample.
    """
    first = stream(seed=seed, split=split, quantity="first class").integers(classes, size=samples)
    step = stream(seed=seed, split=split, quantity="second class").integers(
        1, classes, size=samples
    )
    second = (first + step) % classes
    share = stream(seed=seed, split=split, quantity="share").uniform(SMALLEST_SHARE, 1, samples)
    labelled_first = stream(seed=seed, split=split, quantity="label").random(samples) < share
    label = np.where(labelled_first, first, second)
    return Blends(first=first, second=second, share=share.astype(np.float32), label=label)
