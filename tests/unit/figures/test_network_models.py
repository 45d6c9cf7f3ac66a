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


def test_layers_of_the_lstm_have_the_units_of_the_real_ones() -> None:
    network: Any = built("lstm", "default").build_model()

    model = listed("lstm", "default", network)

    assert model is not None
    embedding, *layers, head = model.stages
    assert len(layers) == network.lstm.num_layers
    found = outputs(
        network,
        [network.embedding, network.lstm, network.head],
        torch.zeros(1, 64, dtype=torch.long),
    )
    assert shapes([embedding, layers[-1], head]) == found
    for number, layer in enumerate(layers):
        own = [values for name, values in network.lstm.named_parameters() if f"_l{number}" in name]
        assert layer.parameters == sum(values.numel() for values in own)


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_stages_of_the_image_cnn_are_those_of_the_real_one(size: str) -> None:
    network = built("cnn", size).build_model()
    first, second, third, _, hidden, _, last = network.children()

    model = listed("cnn", size, network)

    assert model is not None
    parts = [first, second, third, hidden, last]
    assert shapes(model.stages[1:]) == outputs(network, parts, torch.zeros(1, 3, 32, 32))
    assert [stage.parameters for stage in model.stages[1:]] == [count(part) for part in parts]


@pytest.mark.parametrize(
    ("name", "size", "pixels"),
    [("resnet18", "default", 32), ("resnet50", "default", 32), ("resnet50", "224px", 224)],
)
def test_groups_of_residual_blocks_are_those_of_the_real_network(
    name: str, size: str, pixels: int
) -> None:
    network: Any = built(name, size).build_model()
    groups = [network.layer1, network.layer2, network.layer3, network.layer4]

    model = listed(name, size, network)

    assert model is not None
    found = outputs(
        network, [network.maxpool, *groups, network.fc], torch.zeros(1, 3, pixels, pixels)
    )
    assert shapes([*model.stages[1:6], model.stages[-1]]) == found
    assert [stage.parameters for stage in model.stages[2:6]] == [count(group) for group in groups]
    assert [int(stage.name.split()[0]) for stage in model.stages[2:6]] == [
        len(group) for group in groups
    ]


def test_layers_of_the_transformer_have_the_heads_and_units_of_the_real_ones() -> None:
    network: Any = built("transformer", "default").build_model()
    layer = network.layers[0]

    model = listed("transformer", "default", network)

    assert model is not None
    encoder = model.stages[2]
    assert encoder.parameters == count(network.layers)
    assert encoder.name == (
        f"{len(network.layers)} encoder layers:\n{layer.self_attn.num_heads} heads, "
        f"{layer.linear1.out_features} units"
    )
    found = outputs(
        network, [network.layers, network.normalisation], torch.zeros(1, 64, dtype=torch.long)
    )
    assert shapes(model.stages[2:4]) == found


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
