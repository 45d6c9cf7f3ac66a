"""Workloads small enough to train in a moment, and ones that go wrong in a way of their own."""

import gc
import os
import random
import signal
import struct
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import psutil
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.utils.data import Dataset, TensorDataset, get_worker_info

from gpu_report.workloads.gpt2 import GPT2LanguageModel

PointData = Dataset[tuple[Tensor, Tensor]]


class Tiny:
    """Tells two overlapping clouds of points apart."""

    title = "tiny classifier"
    quality_name = "accuracy"
    loss_name = "cross-entropy"
    optimizer_name = "SGD, learning rate 0.1"
    sample_description = "4 numbers, 2 classes"
    data_description = "Two overlapping clouds of points."

    def __init__(self, *, size: str, seed: int, samples: int = 20, note: str = "") -> None:
        self.size, self.seed, self.samples, self.note = size, seed, samples, note

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.1)

    def train_data(self) -> PointData:
        return self._points(self.samples, self.seed)

    def test_data(self) -> PointData:
        return self._points(8, self.seed + 1_000_000)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target)

    def quality(self, output: Tensor, target: Tensor) -> float:
        return (output.argmax(1) == target).float().mean().item()

    def chance(self) -> float:
        return 0.5

    def _points(self, count: int, seed: int) -> PointData:
        generator = torch.Generator().manual_seed(seed)
        target = torch.randint(2, (count,), generator=generator)
        points = torch.randn(count, 4, generator=generator) + target[:, None]
        return cast("PointData", TensorDataset(points, target))


class TinyWithAdam(Tiny):
    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return Adam(model.parameters(), lr=0.1)


class WritesWhatItSees(Tiny):
    """Appends to the file `note` whether the profiler is on, at every loss; and how the process
    began.
    """

    def build_model(self) -> nn.Module:
        with Path(self.note).open("a") as file:
            touched = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
            file.write(f"accelerator touched: {touched}\nprocess: {os.getpid()}\n")
        return super().build_model()

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        with Path(self.note).open("a") as file:
            file.write(f"profiler on: {torch._C._autograd._profiler_enabled()}\n")
        return super().loss(output, target)


class FailsInSecondRepetition(Tiny):
    def build_model(self) -> nn.Module:
        if self.seed == 1:
            raise ArithmeticError("the second\nis wrong")
        return super().build_model()


class WantsTooMuch(Tiny):
    """Asks the allocator for a pebibyte in the first step."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (
            super().loss(output, target)
            + torch.empty(2**50, dtype=torch.uint8, device=output.device).sum()
        )


class WarnsAndLacksDeviceMemory(Tiny):
    """Warns as PyTorch's C++ side does, then raises what an accelerator without memory raises."""

    def loss(self, _output: Tensor, _target: Tensor) -> Tensor:
        os.write(2, b"[W1122 Context.cpp:80] Warning: from below Python\n")
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. If reserved memory is large"
        )


class WantsTooMuchWhenProfiled(WantsTooMuch):
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        is_profiled = torch._C._autograd._profiler_enabled()
        return super().loss(output, target) if is_profiled else Tiny.loss(self, output, target)


class WantsTooMuchWhenCaptured(WantsTooMuch):
    """Trains in the warm-up of a capture and asks for too much in the capture itself; needs
    CUDA.
    """

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        is_captured = torch.cuda.is_current_stream_capturing()
        return super().loss(output, target) if is_captured else Tiny.loss(self, output, target)


class FillsTheDevice(Tiny):
    """Takes all memory of the device, a GiB at a time, and then one more."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        taken = []
        while output.device.type != "cpu":
            taken.append(torch.empty(2**30, dtype=torch.uint8, device=output.device))
        return super().loss(output, target)


class KillsItself(Tiny):
    """Ends its process with the signal named `note`, in training."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.Signals[self.note])
        return super().loss(output, target)


class CrashesWhenFirstProfiled(Tiny):
    """In later profiled runs the file `note` is there, and it trains."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if torch._C._autograd._profiler_enabled() and not Path(self.note).exists():
            Path(self.note).touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().loss(output, target)


class DiesInTheMiddleOfAMessage(Tiny):
    """Sends the head of a message of 1000 bytes and four of them, and is killed."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        pipes = [
            found for found in gc.get_objects() if type(found) is Connection and found.writable
        ]
        os.write(pipes[0].fileno(), struct.pack("!i", 1000) + b"half")
        os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(output, target)


class Leaves(Tiny):
    def build_model(self) -> nn.Module:
        os._exit(7)


class _Lethal(PointData):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(4), torch.tensor(0)


class LosesALoaderWorker(Tiny):
    def train_data(self) -> PointData:
        return _Lethal()


class _Broken(_Lethal):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        raise LookupError("no such picture")


class FailsInALoaderWorker(Tiny):
    def train_data(self) -> PointData:
        return _Broken()


class NeverEnds(Tiny):
    """Writes the numbers of its process and loader workers to the file `note` and then takes its
    time.
    """

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        Path(self.note).write_text(str(os.getpid()))
        time.sleep(600)
        return super().loss(output, target)


class TakesItsTime(Tiny):
    """Slow enough for progress messages, which are at most four times a second."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        time.sleep(0.07)
        return super().loss(output, target)


class MultipliesBigMatrices(Tiny):
    """Raises where a product or a convolution is less exact than IEEE single precision makes it."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        exact = torch.rand(256, 256, dtype=torch.float64, device=output.device)
        rough = exact.float()
        picture, kernel = rough.reshape(1, 64, 32, 32), rough[:64, :].reshape(64, 64, 2, 2)
        convolved = nn.functional.conv2d(picture.double(), kernel.double())
        errors = [
            (rough @ rough - exact @ exact).abs().max() / (exact @ exact).abs().max(),
            (nn.functional.conv2d(picture, kernel) - convolved).abs().max() / convolved.abs().max(),
        ]
        if max(errors) > 1e-5:
            raise ArithmeticError(f"errors of {[error.item() for error in errors]}")
        return super().loss(output, target)


class GoesWrongInOneRank(Tiny):
    """One rank does something at a moment of its training, while the others are busy with something
    that takes longer.

    `where` names the part of the workload, or a function that is called after the model is built;
    `what` is a signal, an exception, `be deaf` where it answers nothing and ignores SIGTERM, or
    `agent` and `stop agent` where it kills or stops the agent that started it.
    """

    def __init__(self, *, size: str, seed: int, where: str, what: str, rank: int = 1) -> None:
        super().__init__(size=size, seed=seed)
        self._where, self._what, self._rank, self._calls = where, what, str(rank), Counter[str]()

    def build_model(self) -> nn.Module:
        self._reach("model")
        sys.setprofile(
            lambda frame, event, _: self._reach(frame.f_code.co_name) if event == "call" else None
        )
        return super().build_model()

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        self._reach("optimizer")
        return super().build_optimizer(model)

    def train_data(self) -> PointData:
        self._reach("train_data")
        return super().train_data()

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        self._calls["loss"] += 1
        self._reach(f"loss{self._calls['loss']}")
        return super().loss(output, target)

    def quality(self, output: Tensor, target: Tensor) -> float:
        self._reach("quality")
        return super().quality(output, target)

    def _reach(self, place: str) -> None:
        if place != self._where:
            return
        sys.setprofile(None)
        if os.environ.get("RANK") != self._rank:
            time.sleep(0.5)  # longer than the agent takes to see that the rank is gone
            return
        if self._what == "be deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        if self._what in ("agent", "stop agent"):
            os.kill(os.getppid(), signal.SIGKILL if self._what == "agent" else signal.SIGSTOP)
            time.sleep(60)
        if self._what.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, self._what))
            time.sleep(60)
        raise (
            MemoryError("no room for this")
            if self._what == "MemoryError"
            else ArithmeticError("no such number")
        )


class SignalsItsFamily(Tiny):
    """Sends the signals named in `note` to its process, the one that started it and its loader
    workers.
    """

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        for process in (
            psutil.Process(),
            psutil.Process(os.getppid()),
            *psutil.Process().children(recursive=True),
        ):
            for name in self.note.split():
                process.send_signal(signal.Signals[name])
        return super().loss(output, target)


class FailsAlone(Tiny):
    """Can be trained by several processes only."""

    def build_model(self) -> nn.Module:
        if "RANK" not in os.environ:
            raise ArithmeticError("no such number")
        return super().build_model()


class BypassesTheWrapper(Tiny):
    """Adds a parameter's gradient after the backward pass, differently in each process."""

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        optimizer = super().build_optimizer(model)
        first = next(model.parameters())

        def add_rank(*_: object) -> None:
            assert first.grad is not None
            first.grad.add_(float(os.environ.get("RANK", "0")))

        optimizer.register_step_pre_hook(add_rank)
        return optimizer


class InDoublePrecision(Tiny):
    def build_model(self) -> nn.Module:
        return super().build_model().double()

    def _points(self, count: int, seed: int) -> PointData:
        points, target = super()._points(count, seed).tensors  # type: ignore[attr-defined]
        return cast("PointData", TensorDataset(points.double(), target))


class GPT2InDoublePrecision(GPT2LanguageModel):
    def build_model(self) -> nn.Module:
        return super().build_model().double()


class _WithSkip(nn.Module):
    """Passes on what it computes, and what is added behind the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.skip = nn.Linear(4, 8), nn.Linear(4, 2)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(self.layer(points)), self.skip(points)


class _BesideSkip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, features: Tensor, skipped: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(self.layer(features)), skipped


class _AfterSkip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, features: Tensor, skipped: Tensor) -> Tensor:
        return cast("Tensor", self.layer(features)) + skipped


class _Skips(nn.Module):
    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_WithSkip(), _BesideSkip(), _BesideSkip(), last])

    def forward(self, points: Tensor) -> Tensor:
        passed = self.layers[0](points)
        for layer in self.layers[1:-1]:
            passed = layer(*passed)
        return cast("Tensor", self.layers[-1](*passed))


class InPieces(InDoublePrecision):
    """Four pieces; two tensors go from each to the next, one of them past those in the middle."""

    def build_model(self) -> nn.Module:
        return _Skips(_AfterSkip()).double()

    def pieces(self, model: nn.Module) -> list[nn.Module]:
        assert isinstance(model, _Skips)
        return list(model.layers)


class InPiecesThatOverlap(InPieces):
    def pieces(self, model: nn.Module) -> list[nn.Module]:
        return [model, *super().pieces(model)[1:]]


class InPiecesWithAFunction(InPieces):
    def pieces(self, model: nn.Module) -> list[nn.Module]:
        return [*super().pieces(model), cast("nn.Module", torch.tanh)]


class _Drawn(PointData):
    """A sample is drawn when it is read: its class says on which side of 0 its numbers are."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        side = random.choice((-1.0, 1.0))
        return torch.full((4,), side * random.random(), dtype=torch.double), torch.tensor(
            int(side > 0)
        )


class OfDrawnSamples(InPieces):
    def train_data(self) -> PointData:
        return _Drawn()


class _Fails(_AfterSkip):
    def forward(self, features: Tensor, skipped: Tensor) -> Tensor:
        if self.training and os.environ.get("RANK") != "0":  # which times it before the training
            raise ArithmeticError("no such number")
        return super().forward(features, skipped)


class FailsInTheLastPiece(InPieces):
    def build_model(self) -> nn.Module:
        return _Skips(_Fails()).double()
