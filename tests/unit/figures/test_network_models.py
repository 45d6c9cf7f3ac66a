"""The stages of each network drawn, compared with the network that the workload builds."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn

from gpu_report.figures.networks import Network, Stage, network_of
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Workload
from gpu_report.workloads.protocol import TrainingWorkload, load_workload

SIZES: Final = [
    (name, size) for name in ("unet", "lstm") for size in BUILT_IN_WORKLOADS[name].sizes
]


def built(name: str, size: str) -> TrainingWorkload:
    workload = Workload(name=name, class_path=BUILT_IN_WORKLOADS[name].class_path, settings={})
    return load_workload(workload, size=size, seed=0)


def listed(name: str, size: str, network: nn.Module) -> Network | None:
    return network_of(
        source_file=BUILT_IN_WORKLOADS[name].class_path.partition(":")[0],
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
def test_the_layers_of_each_network_add_up_to_its_parameters(name: str, size: str) -> None:
    network = built(name, size).build_model()

    model = listed(name, size, network)

    assert model is not None
    assert sum(stage.parameters for stage in model.stages) == count(network)


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


def test_layers_of_the_lstm_have_the_shapes_and_parameters_of_the_real_ones() -> None:
    network: Any = built("lstm", "default").build_model()

    model = listed("lstm", "default", network)

    assert model is not None
    first, *_, second, scores = model.stages
    tokens = torch.zeros(1, 64, dtype=torch.long)
    modules = [network.embedding, network.lstm, network.head]
    assert shapes([first, second, scores]) == outputs(network, modules, tokens)
    recurrent = sum(stage.parameters for stage in model.stages[1:-1])
    assert [first.parameters, recurrent, scores.parameters] == [*map(count, modules)]


@pytest.mark.parametrize("change", [{"parameters": 31_037_764}, {"source_file": "my.own"}])
def test_a_network_that_is_not_the_one_known_here_is_not_drawn(change: dict[str, Any]) -> None:
    known: dict[str, Any] = {
        "source_file": "gpu_report.workloads.unet",
        "size": "128px",
        "parameters": 31_037_763,
    }

    assert network_of(**known) is not None
    assert network_of(**{**known, **change}) is None
