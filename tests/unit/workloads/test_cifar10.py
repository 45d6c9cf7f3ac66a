"""CIFAR-10 is read by torchvision, and its absence is said in one line that tells the way out."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.datasets import CIFAR10

from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.protocol import WorkloadError
from gpu_report.workloads.transformer import PatchEmbedding, TransformerClassification
from tests.unit.workloads.training import all_of, losses_of_training


@pytest.fixture
def small_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in CIFAR-10's own format, with 8 pictures per file, and a reader that accepts it."""
    base = tmp_path / CIFAR10.base_folder
    base.mkdir()
    draw = np.random.default_rng(0)
    for name in ("data_batch_1", "test_batch"):
        pixels = draw.integers(0, 256, (8, 3 * 32 * 32), dtype=np.uint8)
        (base / name).write_bytes(
            pickle.dumps({"data": pixels, "labels": [0, 1, 2, 3, 4, 5, 5, 5]})
        )
    (base / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    monkeypatch.setattr(CIFAR10, "train_list", [["data_batch_1", None]])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", None]])
    monkeypatch.setattr(
        CIFAR10, "meta", {"filename": "batches.meta", "key": "label_names", "md5": None}
    )
    return tmp_path


def cifar10_cnn(folder: Path) -> CNNClassification:
    return CNNClassification(
        size="small",
        seed=0,
        data="cifar10",
        data_folder=str(folder),
        train_samples=4,
        test_samples=8,
    )


def test_cifar10_gives_the_first_samples_standardised(small_cifar10: Path) -> None:
    workload = cifar10_cnn(small_cifar10)

    pictures, labels = all_of(workload.train_data())

    assert pictures.shape == (4, 3, 32, 32)
    assert -2.1 < pictures.min() < 0 < pictures.max() < 2.2
    assert labels.tolist() == [0, 1, 2, 3]
    assert workload.chance() == 3 / 8


def test_the_transformer_learns_from_cifar10_by_patches(small_cifar10: Path) -> None:
    workload = TransformerClassification(
        size="default", seed=0, data="cifar10", data_folder=str(small_cifar10), train_samples=8
    )
    pictures, _ = all_of(workload.train_data())

    losses = losses_of_training(workload, steps=6)

    assert pictures.shape == (8, 3, 32, 32)
    assert losses[-1] < losses[0]


def test_a_patch_of_a_picture_is_one_place_of_the_sequence() -> None:
    embedding, pictures = PatchEmbedding(width=2), torch.zeros(1, 3, 32, 32)
    changed = pictures.clone()
    changed[:, :, :4, 4:8] = 1  # the second patch of the first row

    differ = (embedding(changed) != embedding(pictures)).any(dim=2)

    assert differ.nonzero().tolist() == [[0, 1]]


def test_missing_cifar10_is_said_in_one_line_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CIFAR10, "url", "file:///nowhere/cifar-10-python.tar.gz")

    with pytest.raises(
        WorkloadError, match=r"cannot be downloaded.*cifar-10-python\.tar\.gz.*data: synthetic"
    ) as raised:
        cifar10_cnn(tmp_path / "data").train_data()

    assert "\n" not in str(raised.value)
    assert str(tmp_path / "data") in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"the beginning of an archive"])
def test_an_archive_that_fails_its_checksum_is_called_corrupt_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    elsewhere, archive = tmp_path / "elsewhere", tmp_path / "cifar-10-python.tar.gz"
    elsewhere.write_bytes(b"what would be downloaded")
    archive.write_bytes(content)
    monkeypatch.setattr(CIFAR10, "url", elsewhere.as_uri())

    with pytest.raises(WorkloadError, match=r"is corrupt: .*delete it") as raised:
        cifar10_cnn(tmp_path).train_data()

    assert "\n" not in str(raised.value)
    assert str(archive) in str(raised.value)
    assert archive.read_bytes() == content
