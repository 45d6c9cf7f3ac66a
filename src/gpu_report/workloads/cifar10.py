"""CIFAR-10 through torchvision's own reader, held in memory and standardised."""

from pathlib import Path
from typing import Final
from urllib.error import URLError

import numpy as np
import torch

from gpu_report.workloads.classification import TensorPairs
from gpu_report.workloads.protocol import WorkloadError
from gpu_report.workloads.synthetic import Split

ARCHIVE: Final = "cifar-10-python.tar.gz"
CHANNEL_MEANS: Final = (0.4914, 0.4822, 0.4465)
CHANNEL_DEVIATIONS: Final = (0.2470, 0.2435, 0.2616)
"""Of the training pictures, values 0 to 1."""


def cifar10_data(folder: Path, *, workload: str, split: Split, samples: int) -> TensorPairs:
    """The first samples of a split (50,000 for training, 10,000 held out), or all where fewer are
    there.

    The files are taken from the folder, and downloaded into it where it has none; an archive that
    is there is never replaced. An error names the `workload`.

    Raises:
        WorkloadError: the files are not in the folder and cannot be downloaded, or their archive is
            corrupt.
    """
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import check_integrity

    archive = folder / ARCHIVE
    try:
        try:
            pictures = CIFAR10(folder, train=split == "train")
        except RuntimeError:
            if archive.exists() and not check_integrity(archive, CIFAR10.tgz_md5):
                raise WorkloadError(
                    f"workloads.{workload}.data: {archive} is corrupt: it has "
                    f"{archive.stat().st_size} bytes, and not the MD5 checksum {CIFAR10.tgz_md5}; "
                    "delete it to download it again, or use data: synthetic"
                ) from None
            pictures = CIFAR10(folder, train=split == "train", download=True)
    except (URLError, OSError, RuntimeError) as error:
        raise WorkloadError(
            f"workloads.{workload}.data: CIFAR-10 is not in {folder} and cannot be downloaded "
            f"({' '.join(str(error).split())}); put {ARCHIVE} there, from the CIFAR-10 page of "
            "the University of Toronto, or use data: synthetic"
        ) from error
    return TensorPairs(
        _standardised(pictures.data[:samples]), torch.tensor(pictures.targets[:samples])
    )


def _standardised(pictures: np.ndarray) -> torch.Tensor:
    values = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    means, deviations = (
        torch.tensor(numbers).view(3, 1, 1) for numbers in (CHANNEL_MEANS, CHANNEL_DEVIATIONS)
    )
    return ((values - means) / deviations).contiguous()
