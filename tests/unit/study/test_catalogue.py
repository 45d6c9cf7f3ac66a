"""What the catalogue says of our workloads without PyTorch is what training them would say."""

import re
from typing import Any

import pytest
import torch
from torch import nn

from gpu_report.errors import ConfigError
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.study import Workload
from gpu_report.study.variant import Variant
from gpu_report.workloads import gpt2
from gpu_report.workloads.protocol import BringsLoops, NamesBlocks, NamesPieces, load_workload

CUSTOM_LOOP: dict[str, Any] = {"workload": "linear_regression", "steps_per_epoch": 20}


def check(**fields: Any) -> None:
    variant = Variant(**{"device": "cpu", "batch_size": 8, "epochs": 2, **fields})
    BUILT_IN_WORKLOADS[variant.workload].check(variant)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"options": "resident"},
            "options: resident is not allowed, since linear_regression trains by custom",
        ),
        (
            {"options": "graphs+compile", "device": "cuda"},
            r"options: graphs\+compile is not allowed",
        ),
        ({"workers": 4}, "workers: 4 is not allowed.*; leave it at 0"),
        ({"precision": "bf16"}, "precision: bf16 is not allowed.*; leave it at fp32"),
        (
            {"steps_per_epoch": None},
            "steps_per_epoch: missing; .* the number of iterations over the points",
        ),
    ],
)
def test_loops_of_a_workloads_own_are_refused_what_they_cannot_do(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        check(**{**CUSTOM_LOOP, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"workload": "lstm", "options": "openmp"},
            "openmp has nothing to do in lstm; leave it out",
        ),
        (
            {"workload": "lstm", "options": "fused+checkpoint"},
            "checkpoint has nothing to do in lstm; leave it out",
        ),
    ],
)
def test_a_workload_without_loops_is_refused_options_that_it_has_nothing_for(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^options: {re.escape(message)}"):
        check(**fields)


def test_a_workload_without_pieces_or_with_too_few_is_refused_a_strategy_that_needs_them() -> None:
    with pytest.raises(
        ConfigError, match=r"^parallelism: pipeline2 needs a model in 2 pieces, and lstm names none"
    ):
        check(workload="lstm", strategy="pipeline", devices=2)
    with pytest.raises(
        ConfigError, match=r"^parallelism: pipeline32 needs .* and unet has 19; take fewer devices"
    ):
        check(workload="unet", size="32px", strategy="pipeline", devices=32)
    check(workload="unet", size="32px", strategy="pipeline", devices=19)


def has_attention(model: nn.Module) -> bool:
    kinds = (gpt2.Attention, nn.MultiheadAttention)
    return any(isinstance(module, kinds) for module in model.modules())


@pytest.mark.parametrize("name", [name for name in BUILT_IN_WORKLOADS if name != "image_files"])
def test_the_catalogue_knows_of_loops_blocks_and_pictures_what_the_class_has(name: str) -> None:
    entry = BUILT_IN_WORKLOADS[name]
    settings: dict[str, Any] = {"train_samples": 10, "test_samples": 10}
    settings = {} if entry.loops else settings | ({"tied": False} if name == "gpt2" else {})
    workload = Workload(name=name, class_path=entry.class_path, settings=settings)

    loaded = load_workload(workload, size=entry.sizes[0], seed=0)

    assert isinstance(loaded, BringsLoops) == bool(entry.loops)
    assert isinstance(loaded, NamesPieces) == bool(entry.pieces)
    if isinstance(loaded, NamesPieces):
        sizes: list[Any] = [load_workload(workload, size=size, seed=0) for size in entry.sizes]
        with torch.device("meta"):
            pieces = [len(list(each.pieces(each.build_model()))) for each in sizes]
        assert max(pieces) == entry.pieces
    if not entry.loops:
        assert isinstance(loaded, NamesBlocks) == ("checkpoint" not in entry.useless_options)
        assert has_attention(loaded.build_model()) == entry.has_attention
        is_picture = len(loaded.train_data()[0][0].shape) == 3
        assert is_picture == ("channelslast" not in entry.useless_options)
