"""A transformer encoder on the texts of the LSTM: which of three styles was a text written in?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from gpu_report.workloads.texts import CLASSES, SEQUENCE_LENGTH, VOCABULARY, TextClassification

SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "default": {"width": 256, "heads": 8, "feed_forward": 1024, "layers": 4},
    "bertlarge": {"width": 1024, "heads": 16, "feed_forward": 4096, "layers": 24},
}
"""bertlarge has the dimensions of BERT-Large (Devlin et al. 2019)."""

POSITION_SPREAD: Final = 0.02
"""Standard deviation of the position vectors at the start, as in BERT (Devlin et al. 2019)."""


class TransformerEncoder(nn.Module):
    """Embedding with learned positions, encoder layers, the mean over time, a linear classifier:
    3,202,307 parameters with the default four layers, 302,482,435 in size bertlarge.

    The layers normalise what goes into them, not what comes out, which trains without a
    learning-rate warm-up (Xiong et al. 2020); so a last normalisation follows them. There is no
    dropout: what a step computes does not hang on chance. Takes characters (samples, time) and
    gives one score per class (samples, classes).
    """

    def __init__(self, *, width: int, heads: int, feed_forward: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(POSITION_SPREAD * torch.randn(SEQUENCE_LENGTH, width))
        self.layers = nn.Sequential(*(_layer(width, heads, feed_forward) for _ in range(layers)))
        self.normalisation = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, characters: Tensor) -> Tensor:
        states = self.normalisation(self.layers(self.embedding(characters) + self.positions))
        scores: Tensor = self.head(states.mean(dim=1))
        return scores


def _layer(width: int, heads: int, feed_forward: int) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        width, heads, feed_forward, dropout=0.0, batch_first=True, norm_first=True
    )


@dataclass(frozen=True, kw_only=True)
class TransformerClassification(TextClassification):
    """The LSTM's task, learned with a smaller learning rate, in the sizes of SIZES."""

    learning_rate: float = 5e-4

    name: ClassVar[str] = "transformer"
    sizes: ClassVar[tuple[str, ...]] = tuple(SIZES)
    title: ClassVar[str] = "transformer encoder"

    def build_model(self) -> nn.Module:
        return TransformerEncoder(**SIZES[self.size])

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return (
            module for module in model.modules() if isinstance(module, nn.TransformerEncoderLayer)
        )
