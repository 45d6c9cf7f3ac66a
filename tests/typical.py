"""What is typical of a variant: its speed, memory, arithmetic and waiting, so that made records
look measured.
"""

import math
from collections.abc import Mapping
from typing import Final

from gpu_report.study.options import option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import Variant

THROUGHPUT_PER_S: Final = {
    "unet": 6.0,
    "unet-128px": 1.5,
    "lstm": 60.0,
    "cnn": 900.0,
    "cnn-small": 2400.0,
    "cnn-large": 150.0,
    "transformer": 90.0,
    "gpt2": 0.2,
    "resnet18": 120.0,
    "resnet50": 45.0,
    "image_files": 220.0,
}
"""On the CPU with batches of 64, by workload, or by workload and size where they differ."""

LOOPS: Final = "linear_regression"
"""The workload that brings its own loops."""

_PASS_US: Final = {
    "cpu": {"none": (30.0, 8700.0), "compile": (30.0, 60.0), "openmp": (5.0, 25.0)},
    "cuda": {
        "none": (400.0, 50.0),
        "compile": (120.0, 10.0),
        "graphs": (35.0, 55.0),
        "triton": (40.0, 3.0),
        "separate": (15.0, 12.0),
        "streams": (20.0, 3.0),
        "fusedstep": (5.0, 1.0),
        "sharedsums": (4.0, 1.0),
        "persistent": (3.1, 0.25),
        "statistics": (0.3, 0.02),
    },
}
"""By device and loop: what a pass takes however few the points, and for each million of them."""

BYTES_OF_PASS: Final = {"none": 40.0, "compile": 40.0, "graphs": 40.0, "separate": 28.0}
"""For each point, where it is not 8; what stays on the chip reads 8 in all passes together."""


PARAMETERS: Final = {
    "unet": 31_037_763,
    "lstm": 2_384_899,
    "cnn": 410_000,
    "cnn-small": 30_000,
    "cnn-large": 6_690_000,
    "transformer": 3_200_000,
    "gpt2": 124_475_904,
    "resnet18": 11_181_642,
    "resnet50": 23_528_522,
    "image_files": 410_000,
    LOOPS: 2,
}
TITLES: Final = {
    "unet": "U-Net",
    "lstm": "bidirectional LSTM",
    "cnn": "image CNN",
    "transformer": "transformer encoder",
    "gpt2": "GPT-2",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "image_files": "image CNN on JPEG files",
    LOOPS: "linear regression",
}
TRAIN_SAMPLES: Final = {
    "unet": 500,
    "lstm": 2000,
    "transformer": 2000,
    "cnn": 2048,
    "gpt2": 256,
    "resnet18": 2048,
    "resnet50": 2048,
    "image_files": 256,
}
DEVICE_MEMORY_MIB: Final = 81_100.8
"""Of the accelerator that make_record writes into the environment."""

_FLOPS_PER_SAMPLE: Final = {
    "unet": 18e9,
    "unet-128px": 72e9,
    "lstm": 1.1e9,
    "cnn": 0.05e9,
    "cnn-small": 0.004e9,
    "cnn-large": 0.9e9,
    "transformer": 1.8e9,
    "gpt2": 0.88e12,
    "resnet18": 3.3e9,
    "resnet50": 7.8e9,
}
_ACTIVATIONS_MIB: Final = {"unet-128px": 190.0, "resnet50": 60.0, "resnet18": 20.0}
_BY_PRECISION: Final = {"fp32": 1.0, "tf32": 1.9, "fp16": 2.5, "bf16": 2.6}
_BY_OPTION: Final = {
    "pinned": 1.02,
    "highscale": 1.0,
    "prefetch": 1.03,
    "autotune": 1.10,
    "channelslast": 1.15,
    "efficient": 1.4,
    "flash": 1.5,
    "cudnn": 1.5,
    "fp8": 1.1,
    "fused": 1.06,
    "resident": 1.12,
    "graphs": 1.08,
    "compile": 1.45,
    "checkpoint": 0.75,
}
_SHARE_OF_BASE: Final = {"single": 1.0, "dp": 0.4, "ddp": 0.96, "fsdp": 0.8}
_ACCELERATED_MORE: Final = {"unet-128px": 4.0, "gpt2": 4.0, "resnet18": 2.0, "resnet50": 2.0}
_FILLS_THE_ACCELERATOR: Final = 64


def typical_throughput_per_s(
    variant: Variant, *, faster: Mapping[str, float] | None = None
) -> float:
    """Samples per second: `faster` is each device's speed over the CPU's.

    They grow with the batch until they saturate, and with loader workers up to four where files are
    decoded. Shorter formats and options count on an accelerator alone. A small model leaves it idle
    between kernels at small batches.
    """
    if variant.workload == LOOPS:
        fixed_us, us_per_million = _PASS_US[variant.device_type][variant.options]
        usual = {"cpu": 1.0, "cuda": 12.0}
        speed = (faster or usual).get(variant.device_type, 1.0) / usual.get(
            variant.device_type, 1.0
        )
        return (
            1e6
            * speed
            * variant.batch_size
            / (fixed_us + us_per_million * variant.batch_size / 1e6)
        )
    if variant.strategy != SINGLE:
        alone = typical_throughput_per_s(variant.base, faster=faster)
        return alone * variant.batch_size / variant.base.batch_size * typical_share_of_base(variant)
    base = THROUGHPUT_PER_S.get(key_of(variant), 500.0)
    base *= math.pow(1024 / typical_context(variant), 1.1)
    batch = variant.batch_size / (variant.batch_size + 32) / (64 / 96)
    workers = 1 + 0.6 * min(variant.workers, 4) if variant.workload == "image_files" else 1.0
    parts = 1 / (1 + 0.03 * (variant.accumulation - 1))
    return base * batch * workers * parts * _device_factor(variant, faster or {"cuda": 12.0})


def typical_context(variant: Variant) -> int:
    """Tokens of a sample of GPT-2."""
    name, _, context = variant.size.partition("_")
    return int(context) if name == "124m" and context else 1024


def typical_share_of_base(variant: Variant) -> float:
    """What each device reaches of a plain process with its samples: the less, the faster the
    training is.
    """
    share = _SHARE_OF_BASE.get(variant.strategy, 0.6)
    return share if variant.precision == "fp32" else share**2


def _device_factor(variant: Variant, faster: Mapping[str, float]) -> float:
    factor = faster.get(variant.device_type, 1.0)
    if variant.device_type == "cpu":
        return factor
    if variant.size == "small":
        factor *= min(1.0, variant.batch_size / _FILLS_THE_ACCELERATOR)
    factor *= _ACCELERATED_MORE.get(key_of(variant), 1.0)
    for option in option_names(variant.options):
        factor *= _BY_OPTION[option]
    return factor * _BY_PRECISION[variant.precision]


def typical_memory_mib(variant: Variant, parameters: int) -> float:
    """Weights with gradients and Adam's two moments, and activations of a part of the batch."""
    base = 280.0 if variant.device_type == "cpu" else 20.0
    if variant.workload == LOOPS:
        return base + 16 * variant.batch_size / 2**20
    shorter = 0.6 if variant.precision in ("fp16", "bf16") else 1.0
    if variant.strategy != SINGLE:
        return typical_memory_mib(variant.base, parameters) * (
            0.8 if variant.strategy == "fsdp" else 1.02
        )
    kept = 0.4 if "checkpoint" in option_names(variant.options) else 1.0
    part = variant.batch_size / variant.accumulation
    return (
        base
        + 16 * parameters / 2**20
        + _ACTIVATIONS_MIB.get(key_of(variant), 0.5) * part * shorter * kept
    )


def typical_flops_per_sample(variant: Variant) -> float:
    """Floating-point operations of a training step, per sample."""
    return _FLOPS_PER_SAMPLE.get(key_of(variant), 1e9)


def typical_wait(variant: Variant) -> float:
    """Share of the time that the loop waits for the loader."""
    return 0.4 / (1 + variant.workers) if variant.workload == "image_files" else 0.03


def key_of(variant: Variant) -> str:
    """Under which name its typical values stand."""
    sized = f"{variant.workload}-{variant.size}"
    return sized if sized in THROUGHPUT_PER_S else variant.workload
