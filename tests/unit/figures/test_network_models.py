"""The stages of each network, compared with the network that the workload builds with PyTorch."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn

from gpu_report.figures.networks import Network, Stage, model_of
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Workload
from gpu_report.workloads.protocol import TrainingWorkload, load_workload

FILES: Final = {"folder": "nowhere", "image_px": 96, "train_samples": 8, "test_samples": 8}
SIZES: Final = [
    (name, size)
    for name, workload in BUILT_IN_WORKLOADS.items()
    if not workload.loops
    for size in workload.sizes
]
"""Of every network; what trains by loops of its own is a line."""


def built(name: str, size: str) -> TrainingWorkload:
    settings = FILES if BUILT_IN_WORKLOADS[name].reads_image_files else {}
    workload = Workload(
        name=name, class_path=BUILT_IN_WORKLOADS[name].class_path, settings=settings
    )
    return load_workload(workload, size=size, seed=0)


def listed(name: str, size: str, network: nn.Module) -> Network | None:
    return model_of(
        source_file=BUILT_IN_WORKLOADS[name].class_path.partition(":")[0],
        workload=name,
        size=size,
        parameters=count(network),
    )


def count(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def outputs(
    network: nn.Module, modules: Iterable[nn.Module], sample: Tensor
) -> list[tuple[int, ...]]:
    """The shapes that come out of these modules, without the samples' dimension, in the order
    given.
    """
    found: dict[nn.Module, tuple[int, ...]] = {}

    def remember(module: nn.Module, _: object, output: Tensor | tuple[Tensor, object]) -> None:
        found[module] = tuple((output if isinstance(output, Tensor) else output[0]).shape[1:])

    modules = list(modules)
    hooks = [module.register_forward_hook(remember) for module in modules]
    with torch.no_grad():
        network.eval()(sample)
    for hook in hooks:
        hook.remove()
    return [found[module] for module in modules]


def shapes(stages: Iterable[Stage]) -> list[tuple[int, ...]]:
    return [_shape(stage) for stage in stages]


def _shape(stage: Stage) -> tuple[int, ...]:
    if stage.is_image:
        return stage.channels, stage.length, stage.length
    return (stage.channels,) if stage.length == 1 else (stage.length, stage.channels)


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_the_layers_of_every_network_add_up_to_its_parameters(name: str, size: str) -> None:
    network = built(name, size).build_model()

    model = listed(name, size, network)

    assert model is not None
    assert model.parameters == count(network)


def test_blocks_of_the_u_net_have_the_channels_pixels_and_parameters_of_the_real_ones() -> None:
    network: Any = built("unet", "32px").build_model()
    down = [network.entry, *network.encoders]

    model = listed("unet", "32px", network)

    assert model is not None
    image, *path, head = model.stages
    assert image.parameters == 0
    found = outputs(network, [*down, *network.decoders, network.head], torch.zeros(1, 3, 32, 32))
    assert shapes([*path, head]) == found
    assert [stage.parameters for stage in path[: len(down)]] == [count(block) for block in down]
    assert all(
        model.stages[source].length == model.stages[target].length for source, target in model.skips
    )
    pairs = zip(network.enlargers, network.decoders, strict=True)
    assert [stage.parameters for stage in path[len(down) :]] == [count(*pair) for pair in pairs]


def parts_of(name: str, network: Any) -> list[nn.Module]:
    """The modules of a network that are stages one after the other, from its second stage on."""
    if name == "cnn":
        first, second, third, _, hidden, _, last = network.children()
        return [first, second, third, hidden, last]
    if name == "transformer":
        return [network.layers, network.normalisation]
    return [network.layer1, network.layer2, network.layer3, network.layer4]


TOKENS, IMAGES = torch.zeros(1, 64, dtype=torch.long), torch.zeros(1, 3, 32, 32)


@pytest.mark.parametrize(
    ("name", "size", "first", "sample"),
    [
        ("cnn", "small", 1, IMAGES),
        ("cnn", "large", 1, IMAGES),
        ("resnet18", "default", 2, IMAGES),
        ("resnet50", "224px", 2, torch.zeros(1, 3, 224, 224)),
        ("transformer", "default", 2, TOKENS),
    ],
)
def test_stages_have_the_shapes_parameters_and_blocks_of_the_real_network(
    name: str, size: str, first: int, sample: Tensor
) -> None:
    network = built(name, size).build_model()
    parts = parts_of(name, network)

    model = listed(name, size, network)

    assert model is not None
    stages = model.stages[first : first + len(parts)]
    assert shapes(stages) == outputs(network, parts, sample)
    assert [stage.parameters for stage in stages] == [*map(count, parts)]
    if name.startswith("resnet"):
        assert [int(stage.name.split()[0]) for stage in stages] == [len(part) for part in parts]  # type: ignore[arg-type]


def test_the_encoder_as_large_as_bert_large_has_the_parameters_that_it_claims() -> None:
    of = "gpu_report.workloads.transformer"

    assert model_of(
        source_file=of, workload="transformer", size="bertlarge", parameters=302_482_435
    )


@pytest.mark.parametrize("change", [{"parameters": 31_037_764}, {"source_file": "my.own"}])
def test_a_network_that_is_not_the_one_known_here_is_not_drawn(change: dict[str, Any]) -> None:
    known: dict[str, Any] = {
        "source_file": "gpu_report.workloads.unet",
        "workload": "unet",
        "size": "128px",
        "parameters": 31_037_763,
    }

    assert model_of(**known) is not None
    assert model_of(**{**known, **change}) is None
