"""A transformer encoder on the texts of the LSTM: which of three styles was a text written in? Or
on patches of CIFAR-10's photographs: which of ten classes is one of?
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from gpu_report.workloads import textures
from gpu_report.workloads.classification import TensorPairs
from gpu_report.workloads.synthetic import Split
from gpu_report.workloads.texts import (
    CLASSES,
    SEQUENCE_LENGTH,
    VOCABULARY,
    TextClassification,
    styled_texts,
)

SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "default": {"width": 256, "heads": 8, "feed_forward": 1024, "layers": 4},
    "bertlarge": {"width": 1024, "heads": 16, "feed_forward": 4096, "layers": 24},
}
"""bertlarge has the dimensions of BERT-Large (Devlin et al. 2019)."""

POSITION_SPREAD: Final = 0.02
"""Standard deviation of the position vectors at the start, as in BERT (Devlin et al. 2019)."""

PATCH_PX: Final = 4
"""Width and height of a patch: a picture of 32x32 pixels has as many as a text has characters."""


class TransformerEncoder(nn.Module):
    """Embedding with learned positions, encoder layers, the mean over time, a linear classifier: on
    texts 3,202,307 parameters with the default four layers, 302,482,435 in size bertlarge.

    The layers normalise what goes into them, not what comes out, which trains without a
    learning-rate warm-up (Xiong et al. 2020); so a last normalisation follows them. There is no
    dropout: what a step computes does not hang on chance. Takes what its embedding makes a sequence
    of vectors (samples, time, width) of, and gives one score per class (samples, classes).
    """

    def __init__(
        self,
        embedding: nn.Module,
        *,
        classes: int,
        width: int,
        heads: int,
        feed_forward: int,
        layers: int,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = nn.Parameter(POSITION_SPREAD * torch.randn(SEQUENCE_LENGTH, width))
        self.layers = nn.Sequential(*(_layer(width, heads, feed_forward) for _ in range(layers)))
        self.normalisation = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        states = self.normalisation(self.layers(self.embedding(inputs) + self.positions))
        scores: Tensor = self.head(states.mean(dim=1))
        return scores


class PatchEmbedding(nn.Conv2d):
    """One linear map of each patch of a picture, row by row (Dosovitskiy et al. 2021)."""

    def __init__(self, width: int) -> None:
        super().__init__(3, width, kernel_size=PATCH_PX, stride=PATCH_PX)

    def forward(self, pictures: Tensor) -> Tensor:
        return super().forward(pictures).flatten(2).transpose(1, 2)


def _layer(width: int, heads: int, feed_forward: int) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        width, heads, feed_forward, dropout=0.0, batch_first=True, norm_first=True
    )


@dataclass(frozen=True, kw_only=True)
class TransformerClassification(textures.PictureClassification):
    """The LSTM's task, or with data cifar10 that of the image CNN, learned with a smaller learning
    rate than the LSTM's, in the sizes of SIZES.
    """

    train_samples: int = TextClassification.train_samples
    test_samples: int = TextClassification.test_samples

    name: ClassVar[str] = "transformer"
    sizes: ClassVar[tuple[str, ...]] = tuple(SIZES)
    title: ClassVar[str] = "transformer encoder"

    @property
    def sample_description(self) -> str:  # type: ignore[override]
        return (
            super().sample_description
            if self.on_pictures
            else TextClassification.sample_description
        )

    @property
    def data_description(self) -> str:
        return super().data_description if self.on_pictures else TextClassification.data_description

    @property
    def on_pictures(self) -> bool:
        """Whether it trains on photographs and not on texts."""
        return self.data == "cifar10"

    def labelled(self, split: Split, samples: int) -> TensorPairs:
        if self.on_pictures:
            return super().labelled(split, samples)
        return styled_texts(samples=samples, seed=self.seed, split=split)

    def build_model(self) -> nn.Module:
        shape = SIZES[self.size]
        if self.on_pictures:
            return TransformerEncoder(
                PatchEmbedding(shape["width"]), classes=textures.CLASSES, **shape
            )
        return TransformerEncoder(
            nn.Embedding(VOCABULARY, shape["width"]), classes=CLASSES, **shape
        )

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return (
            module for module in model.modules() if isinstance(module, nn.TransformerEncoderLayer)
        )
