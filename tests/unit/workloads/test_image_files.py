"""Every sample is decoded and augmented when it is asked for, in the process that asks."""

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from gpu_report.workloads.image_files import CROP_PX, ImageFileClassification
from gpu_report.workloads.jpeg_files import write_image_files
from gpu_report.workloads.protocol import WorkloadError
from tests.unit.workloads.training import all_of

FILES = {"train_samples": 16, "test_samples": 8, "image_px": 80}


def image_files(folder: Path) -> ImageFileClassification:
    return ImageFileClassification(size="default", seed=0, folder=str(folder), **FILES)


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> ImageFileClassification:
    folder = tmp_path_factory.mktemp("images")
    write_image_files(folder, **FILES)
    return image_files(folder)


def test_training_samples_are_augmented_and_held_out_samples_are_not(
    workload: ImageFileClassification,
) -> None:
    train, test = workload.train_data(), workload.test_data()

    assert train[0][0].shape == test[0][0].shape == (3, CROP_PX, CROP_PX)
    assert not torch.equal(train[0][0], train[0][0])
    assert torch.equal(test[0][0], test[0][0])


def test_loader_processes_give_the_same_held_out_samples(workload: ImageFileClassification) -> None:
    pictures, labels = all_of(workload.test_data())

    loaded = list(DataLoader(workload.test_data(), batch_size=4, num_workers=1))

    assert torch.equal(torch.cat([batch[0] for batch in loaded]), pictures)
    assert torch.equal(torch.cat([batch[1] for batch in loaded]), labels)


def test_a_missing_folder_is_said_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="gpu-report write-image-files"):
        image_files(tmp_path / "absent").train_data()
