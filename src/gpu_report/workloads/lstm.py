"""A bidirectional LSTM that finds in which of three styles a text was written, character by
character.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from gpu_report.workloads.texts import CLASSES, VOCABULARY, TextClassification


class BidirectionalLSTM(nn.Module):
    """Embedding, two bidirectional layers, the mean over time, a linear classifier: 2,381,827
    parameters.

    Takes characters (samples, time) and gives one score per class (samples, classes).
    """

    def __init__(self, *, embedding: int = 128, hidden: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, CLASSES)

    def forward(self, characters: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(characters))
        scores: Tensor = self.head(states.mean(dim=1))
        return scores


@dataclass(frozen=True, kw_only=True)
class LSTMClassification(TextClassification):
    """Names no blocks for gradient checkpointing: nearly all activations lie inside one call, of
    both layers.
    """

    name: ClassVar[str] = "lstm"
    title: ClassVar[str] = "bidirectional LSTM"

    def build_model(self) -> nn.Module:
        return BidirectionalLSTM()
