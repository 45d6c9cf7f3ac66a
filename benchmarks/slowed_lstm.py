"""The LSTM's training with a slowdown planted in it, for `benchmarks/planted_slowdown.py`."""

from dataclasses import dataclass

from torch import Tensor

from gpu_report.workloads.lstm import LSTMClassification


@dataclass(frozen=True, kw_only=True)
class SlowedLSTM(LSTMClassification):
    """Computes the loss of each step `repeats` times more than it needs to; what it learns is the same."""

    repeats: int = 0

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        for _ in range(self.repeats):
            super().loss(output.detach(), target)
        return super().loss(output, target)
