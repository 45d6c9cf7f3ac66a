"""The residual networks have the sizes they claim, and see the pictures of the image CNN at full resolution."""

import torch

from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.textures import CLASSES, IMAGE_PX
from tests.unit.workloads.training import all_of, losses_of_training, parameters_of


def small_resnet() -> ResNet18Classification:
    return ResNet18Classification(size="default", seed=0, train_samples=16, test_samples=20)


def test_resnet_18_has_11173962_parameters() -> None:
    assert parameters_of(small_resnet()) == 11_173_962


def test_resnet_50_has_23520842_parameters() -> None:
    assert parameters_of(ResNet50Classification(size="default", seed=0)) == 23_520_842


def test_every_picture_gets_a_score_per_class() -> None:
    model = small_resnet().build_model()

    assert model(torch.zeros(2, 3, IMAGE_PX, IMAGE_PX)).shape == (2, CLASSES)


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

    for ours, theirs in zip(all_of(small_resnet().test_data()), all_of(cnn.test_data()), strict=True):
        assert torch.equal(ours, theirs)


def test_the_residual_network_learns() -> None:
    losses = losses_of_training(small_resnet(), steps=4)

    assert losses[-1] < losses[0]
