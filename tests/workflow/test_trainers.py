"""The trainers of Lightning and Hugging Face call our callbacks as these expect; skipped where they
are missing.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gpu_report.callbacks import hugging_face_callback, lightning_callback

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # what these libraries warn about is theirs
]

SAMPLES = 1600
EPOCHS = 2
BATCH = 8
ACCUMULATED = 2


class Classifier(nn.Module):
    """Returns the loss, as Hugging Face's Trainer expects it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        outputs = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(outputs, labels), "logits": outputs}


def fit_with_lightning(callback: Any) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.classifier = Classifier()

        def training_step(self, batch: Any, _index: int) -> Tensor:
            return self.classifier(*batch)["loss"]  # type: ignore[no-any-return]

        validation_step = training_step

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    samples = TensorDataset(torch.randn(SAMPLES, 16), torch.randint(0, 10, (SAMPLES,)))
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        accumulate_grad_batches=ACCUMULATED,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Module(), DataLoader(samples, BATCH), DataLoader(samples, BATCH))


def train_with_hugging_face(callback: Any, folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    samples = [{"inputs": torch.randn(16), "labels": number % 10} for number in range(SAMPLES)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATED,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    transformers.Trainer(
        model=Classifier(),
        args=arguments,
        train_dataset=samples,
        eval_dataset=samples,
        callbacks=[callback],
    ).train()


def test_lightning_calls_the_callback_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("lightning")
    callback = lightning_callback()

    fit_with_lightning(callback)

    measured = callback.steps.profile.measured
    assert (measured.steps, measured.samples) == (EPOCHS * SAMPLES // BATCH, BATCH)
    assert f"not timed: {EPOCHS} pauses" in capsys.readouterr().err


def test_hugging_face_calls_the_callback_for_each_optimizer_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    callback = hugging_face_callback()

    train_with_hugging_face(callback, tmp_path)

    measured, of_step = callback.steps.profile.measured, BATCH * ACCUMULATED
    assert (measured.steps, measured.samples) == (EPOCHS * SAMPLES // of_step, of_step)
    assert f"not timed: {EPOCHS} pauses" in capsys.readouterr().err


@pytest.mark.parametrize("make", [lightning_callback, hugging_face_callback])
def test_callbacks_on_the_libraries_own_classes_can_be_pickled(make: Callable[[], Any]) -> None:
    pytest.importorskip("lightning" if make is lightning_callback else "transformers")

    assert type(pickle.loads(pickle.dumps(make()))).__name__ == "GpuReportCallback"
