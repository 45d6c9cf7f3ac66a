"""Traces that torch.profiler makes on this machine's CPU, each with the profiler's own summary to
compare with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True, kw_only=True)
class RecordedTrace:
    path: Path
    self_us: dict[str, float]
    calls: dict[str, int]


class TextClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(80, 32)
        self.lstm = nn.LSTM(32, 48, 2, bidirectional=True, batch_first=True, dropout=0.1)
        self.head = nn.Linear(96, 3)

    def forward(self, text: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(text))
        scores: Tensor = self.head(states[:, -1])
        return scores


def small_cnn() -> tuple[nn.Module, Tensor, Tensor]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * 16 * 16, 10),
    )
    return model, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def small_lstm() -> tuple[nn.Module, Tensor, Tensor]:
    return TextClassifier(), torch.randint(0, 80, (32, 24)), torch.randint(0, 3, (32,))


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor, Tensor]]] = {
    "cnn": small_cnn,
    "lstm": small_lstm,
}


@pytest.fixture(scope="session", params=MODELS)
def recorded_trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RecordedTrace:
    """Two profiled training steps of a small model."""
    path = tmp_path_factory.mktemp("traces") / f"{request.param}.pt.trace.json.gz"
    with one_thread(), torch.random.fork_rng():
        torch.manual_seed(0)
        return record(*MODELS[request.param](), path=path)


def record(model: nn.Module, inputs: Tensor, targets: Tensor, *, path: Path) -> RecordedTrace:
    optimizer = torch.optim.Adam(model.parameters())
    loss_of = nn.CrossEntropyLoss()
    activities, steps = [ProfilerActivity.CPU], schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(
        activities=activities, schedule=steps, record_shapes=True, acc_events=True
    ) as profiler:
        for batch, expected in DataLoader(TensorDataset(inputs, targets), batch_size=8):
            optimizer.zero_grad()
            with record_function("forward"):
                loss = loss_of(model(batch), expected)
            loss.backward()
            optimizer.step()
            profiler.step()
            if profiler.step_num == 3:
                break
        profiler.export_chrome_trace(str(path))
    averages = profiler.key_averages()
    return RecordedTrace(
        path=path,
        self_us={average.key: average.self_cpu_time_total for average in averages},
        calls={average.key: average.count for average in averages},
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """The machine is shared; small models gain nothing from more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
