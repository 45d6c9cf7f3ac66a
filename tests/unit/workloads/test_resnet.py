"""The residual networks have the sizes they claim, and see the pictures of the image CNN at full
resolution.
"""

import torch

from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.resnet import ResNet18Classification
from gpu_report.workloads.textures import IMAGE_PX
from tests.unit.workloads.training import all_of


def small_resnet() -> ResNet18Classification:
    return ResNet18Classification(size="default", seed=0, train_samples=16, test_samples=20)


def test_the_first_block_sees_every_pixel() -> None:
    workload = small_resnet()
    model = workload.build_model()
    seen: list[torch.Size] = []
    next(iter(workload.checkpointed_blocks(model))).register_forward_pre_hook(
        lambda _block, inputs: seen.append(inputs[0].shape)
    )
    model(torch.zeros(1, 3, IMAGE_PX, IMAGE_PX))

    assert seen == [(1, 64, IMAGE_PX, IMAGE_PX)]


def test_it_sees_the_pictures_of_the_image_cnn() -> None:
    cnn = CNNClassification(size="small", seed=0, train_samples=16, test_samples=20)

    for ours, theirs in zip(
        all_of(small_resnet().test_data()), all_of(cnn.test_data()), strict=True
    ):
        assert torch.equal(ours, theirs)
