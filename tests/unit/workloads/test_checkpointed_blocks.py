"""The blocks that a workload names for gradient checkpointing lie side by side and hold most of
what is kept.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gpu_report.workloads.cnn import CNNClassification
from gpu_report.workloads.image_files import ImageFileClassification
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.transformer import TransformerClassification
from gpu_report.workloads.unet import UNetSegmentation

PICTURE = torch.zeros(1, 3, 32, 32)
CROP = torch.zeros(1, 3, 64, 64)
TEXT = torch.zeros(1, 64, dtype=torch.int64)
FEW: dict[str, Any] = {"seed": 0, "train_samples": 1, "test_samples": 1}
CASES = [
    (UNetSegmentation(size="32px", **FEW), PICTURE, 9),
    (CNNClassification(size="small", **FEW), PICTURE, 3),
    (ImageFileClassification(size="default", folder="", image_px=64, **FEW), CROP, 3),
    (TransformerClassification(size="default", **FEW), TEXT, 4),
    (ResNet18Classification(size="default", **FEW), PICTURE, 8),
    (ResNet50Classification(size="default", **FEW), PICTURE, 16),
]
cases = pytest.mark.parametrize(
    ("workload", "inputs", "count"), CASES, ids=lambda value: getattr(value, "title", "")
)


def kept_bytes(model: nn.Module, inputs: Tensor) -> int:
    """What a forward pass keeps for the backward pass, without the parameters."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(inputs)
    del output
    return sum(kept.values())


@cases
def test_most_of_what_is_kept_for_the_backward_pass_lies_inside_blocks(
    workload: Any, inputs: Tensor, count: int
) -> None:
    model = workload.build_model()
    inside: list[int] = []
    entered: list[Tensor] = []
    blocks = list(workload.checkpointed_blocks(model))
    for block in blocks:
        block.register_forward_pre_hook(
            lambda _block, arguments: entered.append(arguments[0].detach().clone())
        )
    whole = kept_bytes(model, inputs)
    for block, argument in zip(blocks, list(entered), strict=True):
        inside.append(kept_bytes(block, argument))

    assert sum(inside) > whole / 2
