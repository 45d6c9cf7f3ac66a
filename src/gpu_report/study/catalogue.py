"""The workloads that come with the tool, described without PyTorch so that a configuration is
checked at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from gpu_report.errors import ConfigError
from gpu_report.study.options import ATTENTION, NO_OPTIONS, OPTIONS, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import Variant

IMAGE_FOLDERS: Final = PurePosixPath("results/data")
"""Where the rule that writes image files puts them, relative to the project."""

SYNTHETIC: Final = "synthetic"
GPT2_SIZES: Final[Mapping[str, str]] = {
    "tiny": "tiny",
    "124m_512": "124M (context 512)",
    "124m": "124M",
    "124m_2048": "124M (context 2048)",
    "124m_4096": "124M (context 4096)",
    "124m_8192": "124M (context 8192)",
    "350m": "350M",
    "wide_1024": "of width 1024",
    "wide_2048": "of width 2048",
    "wide_4096": "of width 4096",
}
"""Sizes of GPT-2, and what a reader calls them."""
_PICTURES: Final = (SYNTHETIC, "cifar10")

FIXED_BY_CUSTOM_LOOPS: Final[Mapping[str, Any]] = {
    "precision": "fp32",
    "workers": 0,
    "accumulation": 1,
    "parallelism": SINGLE,
}
"""Fields of a variant that have one value only where a custom training loop trains it."""


@dataclass(frozen=True, kw_only=True)
class BuiltInWorkload:
    """One workload of ours: its class, the sizes it comes in, what it reads, and which options it
    has a use for.
    """

    class_path: str
    title: str
    sizes: tuple[str, ...] = ("default",)
    datasets: tuple[str, ...] = (SYNTHETIC,)
    """What its setting `data` may be; of one alone there is no such setting."""
    reads_image_files: bool = False
    loops: tuple[str, ...] = ()
    """Options that name its custom training loops; a workload that has them trains by no others."""
    useless_options: tuple[str, ...] = ()
    """Those for images where its samples are others, and for a model's blocks where it
    names none.
    """
    has_attention: bool = False
    """Whether options that choose an attention kernel have something to do."""
    pieces: int = 0
    """How many devices can share its model at most: one each for what its `pieces` gives, in its
    deepest size; 0 without these.
    """

    @property
    def has_plain_steps(self) -> bool:
        """Whether a step can be measured by itself: its samples are made in memory, and it has no
        loop of its own.
        """
        return not (self.reads_image_files or self.loops)

    def check(self, variant: Variant) -> None:
        """Refuse what it cannot be trained with before anything is measured.

        Raises:
            ConfigError: names the key, its value and what to do.
        """
        if self.loops:
            self._check_custom_loop(variant)
            return
        if not variant.divides_batch and self.pieces < variant.devices:
            raise ConfigError(
                f"parallelism: {variant.parallelism} needs a model in {variant.devices} pieces, "
                f"and {variant.workload} "
                + (
                    f"has {self.pieces}; take fewer devices"
                    if self.pieces
                    else "names none; leave it out"
                )
            )
        for name in option_names(variant.options):
            needs_attention = name in ATTENTION and not self.has_attention
            if OPTIONS[name].is_loop or name in self.useless_options or needs_attention:
                raise ConfigError(
                    f"options: {name} has nothing to do in {variant.workload}; leave it out"
                )

    def _check_custom_loop(self, variant: Variant) -> None:
        trains = f"{variant.workload} trains by custom loops"
        for name, fixed in FIXED_BY_CUSTOM_LOOPS.items():
            value = getattr(variant, name)
            if value != fixed:
                raise ConfigError(
                    f"{name}: {value} is not allowed, since {trains}; leave it at {fixed}"
                )
        if variant.options not in self.loops:
            raise ConfigError(
                f"options: {variant.options} is not allowed, since {trains}; use one of "
                f"{', '.join(self.loops)}, alone"
            )
        if variant.steps_per_epoch is None:
            raise ConfigError(
                f"steps_per_epoch: missing; {trains}, where it is the number of iterations over "
                "the points; give it, for instance 200"
            )


BUILT_IN_WORKLOADS: Final[Mapping[str, BuiltInWorkload]] = {
    "unet": BuiltInWorkload(
        class_path="gpu_report.workloads.unet:UNetSegmentation",
        title="U-Net",
        sizes=("32px", "64px", "128px"),
        pieces=19,
    ),
    "lstm": BuiltInWorkload(
        class_path="gpu_report.workloads.lstm:LSTMClassification",
        title="bidirectional LSTM",
        useless_options=("channelslast", "checkpoint"),
    ),
    "cnn": BuiltInWorkload(
        class_path="gpu_report.workloads.cnn:CNNClassification",
        title="image CNN",
        sizes=("small", "medium", "large"),
        datasets=_PICTURES,
    ),
    "transformer": BuiltInWorkload(
        class_path="gpu_report.workloads.transformer:TransformerClassification",
        title="transformer encoder",
        sizes=("default", "bertlarge"),
        datasets=_PICTURES,
        useless_options=("channelslast",),
        has_attention=True,
    ),
    "gpt2": BuiltInWorkload(
        class_path="gpu_report.workloads.gpt2:GPT2LanguageModel",
        title="GPT-2",
        sizes=tuple(GPT2_SIZES),
        useless_options=("channelslast",),
        has_attention=True,
        pieces=26,
    ),
    "resnet18": BuiltInWorkload(
        class_path="gpu_report.workloads.resnet:ResNet18Classification",
        title="ResNet-18",
        datasets=_PICTURES,
        pieces=10,
    ),
    "resnet50": BuiltInWorkload(
        class_path="gpu_report.workloads.resnet:ResNet50Classification",
        title="ResNet-50",
        sizes=("default", "224px"),
        datasets=_PICTURES,
        pieces=18,
    ),
    "image_files": BuiltInWorkload(
        class_path="gpu_report.workloads.image_files:ImageFileClassification",
        title="image CNN on JPEG files",
        reads_image_files=True,
    ),
    "linear_regression": BuiltInWorkload(
        class_path="gpu_report.workloads.linear_regression:LinearRegression",
        title="linear regression",
        loops=(
            NO_OPTIONS,
            "compile",
            "graphs",
            *(name for name, option in OPTIONS.items() if option.is_loop),
        ),
    ),
}

WITH_PLAIN_STEPS: Final = tuple(
    name for name, ours in BUILT_IN_WORKLOADS.items() if ours.has_plain_steps
)
"""Those that can be profiled or searched by their names."""

ALIASES: Final[Mapping[str, tuple[str, str]]] = {"simple_cnn": ("cnn", "medium")}
"""Other names by which one can be profiled or searched: the workload, and its size unless given."""


def image_folder(settings: Mapping[str, Any]) -> PurePosixPath:
    """The folder for image files made with these settings; other settings get another folder.

    Raises:
        ConfigError: the settings leave out how many files there are or how large their pictures.
    """
    missing = [key for key in ("train_samples", "test_samples", "image_px") if key not in settings]
    if missing:
        raise ConfigError(
            f"workloads.image_files.{missing[0]}: missing; the image files are made from it"
        )
    train, test, pixels = settings["train_samples"], settings["test_samples"], settings["image_px"]
    return IMAGE_FOLDERS / f"images-{train}-{test}-{pixels}px"
