"""What may be switched on to train faster or in less memory: one declared option each, described
without PyTorch.

A variant names its options joined by `+`, in the order declared here: `pinned+prefetch`. An
optimization is the options with the loader's processes and the parts of a batch: `workers4+pinned`,
`accumulate4+checkpoint`. Where an experiment goes through precisions, it begins with the precision:
`bf16+fused`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_report.errors import ConfigError

NO_OPTIONS: Final = "none"
SEPARATOR: Final = "+"
BUCKETS_MIB: Final[Mapping[str, int]] = {"bucket1": 1, "bucket5": 5, "bucket100": 100}
"""Option of DistributedDataParallel -> the size of its buckets of gradients, which is 25 without
one.
"""
FP8_CAPABILITY: Final = (8, 9)  # https://docs.nvidia.com/cuda/cuda-c-programming-guide
ATTENTION: Final = ("efficient", "flash", "cudnn")
"""Options that choose a kernel of PyTorch's scaled dot-product attention; one at most."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: what a reader calls it, what it does, and what it makes useless."""

    title: str
    meaning: str
    accelerator_only: bool = False
    cuda_only: bool = False
    cpu_only: bool = False
    is_loop: bool = False
    """A custom training loop of the workload; no other option goes with it."""
    is_bound: bool = False
    """Leaves out most of the work, and only shows how fast the others could at best be."""
    replaces: tuple[str, ...] = ()
    """Options, and `workers`, that have nothing left to do beside it."""
    ddp_only: bool = False
    precisions: tuple[str, ...] = ()
    """Those in which an accelerator can do it; empty where it can in all."""
    package: str = ""
    """What must be installed besides."""
    capability: tuple[int, int] | None = None
    """The CUDA compute capability that it needs of a GPU, an NVIDIA one; None where any will do."""


def _of_ddp(
    title: str, meaning: str, *, is_bound: bool = False, replaces: tuple[str, ...] = ()
) -> Option:
    return Option(title=title, meaning=meaning, ddp_only=True, is_bound=is_bound, replaces=replaces)


def _cuda_loop(title: str, meaning: str) -> Option:
    return Option(title=title, meaning=meaning, accelerator_only=True, cuda_only=True, is_loop=True)


OPTIONS: Final[Mapping[str, Option]] = {
    "pinned": Option(
        title="pinned memory",
        meaning="batches are put into page-locked host memory, from which the device copies "
        "without a detour",
        accelerator_only=True,
    ),
    "prefetch": Option(
        title="prefetch on a side stream",
        meaning="the next batch is copied to the device, on a stream of its own, while the "
        "current one is computed; it gains the copies' time at most",
        accelerator_only=True,
    ),
    "autotune": Option(
        title="cuDNN autotuning",
        meaning="cuDNN tries its algorithms on the first batch of each shape and keeps the fastest",
        accelerator_only=True,
        cuda_only=True,
    ),
    "channelslast": Option(
        title="channels-last layout",
        meaning="images and weights are in memory with the channels innermost, as tensor cores "
        "read them",
    ),
    "efficient": Option(
        title="memory-efficient attention",
        meaning="attention is computed in tiles, by PyTorch's memory-efficient kernel",
        accelerator_only=True,
        cuda_only=True,
        replaces=("flash", "cudnn"),
    ),
    "flash": Option(
        title="flash attention",
        meaning="attention is computed in tiles, by the kernel of FlashAttention",
        precisions=("fp16", "bf16"),
        capability=(8, 0),
        replaces=("efficient", "cudnn"),
    ),
    "cudnn": Option(
        title="cuDNN attention",
        meaning="attention is computed in tiles, by cuDNN",
        accelerator_only=True,
        cuda_only=True,
        precisions=("fp16", "bf16"),
        capability=(8, 0),
        replaces=("efficient", "flash"),
    ),
    "fp8": Option(
        title="FP8 linear layers",
        meaning="linear layers multiply in 8-bit floating point, with a scale for each tensor "
        "(torchao)",
        accelerator_only=True,
        cuda_only=True,
        precisions=("bf16",),
        package="torchao",
        capability=FP8_CAPABILITY,
    ),
    "fused": Option(
        title="fused optimizer", meaning="the optimizer updates all parameters in few kernels"
    ),
    "resident": Option(
        title="data in GPU memory",
        meaning="the whole training set is in GPU memory, where batches are picked by index",
        replaces=("workers", "pinned", "prefetch"),
    ),
    "graphs": Option(
        title="CUDA graphs",
        meaning="a whole training step is captured once and then launched as one",
        accelerator_only=True,
        cuda_only=True,
    ),
    "compile": Option(
        title="torch.compile", meaning="the model and its loss are compiled into fused kernels"
    ),
    "checkpoint": Option(
        title="gradient checkpointing",
        meaning="activations inside the model's blocks are computed again in the backward pass "
        "instead of kept",
    ),
    "highscale": Option(
        title="high initial loss scale",
        meaning="the gradient scaler begins at 2 to the power of 32 instead of 16, so that the "
        "first steps overflow, until halving has made it low enough",
    ),
    **{
        name: _of_ddp(
            f"buckets of {mib} MiB",
            f"gradients are averaged {mib} MiB at a time instead of 25",
            replaces=tuple(other for other in BUCKETS_MIB if other != name),
        )
        for name, mib in BUCKETS_MIB.items()
    },
    "bucketview": _of_ddp(
        "gradients as views of buckets",
        "gradients lie in the buckets that are averaged and need not be copied there",
    ),
    "staticgraph": _of_ddp(
        "static graph", "DistributedDataParallel counts on the same operations in every step"
    ),
    "unused": _of_ddp(
        "search for unused parameters",
        "every step looks for parameters that the loss does not depend on",
    ),
    "localbuffers": _of_ddp(
        "buffers not broadcast",
        "every rank keeps its own running statistics of BatchNorm, which rank 0 else sends before "
        "every forward pass",
    ),
    "compressed": _of_ddp(
        "gradients sent as bf16", "gradients are rounded to bf16 to be averaged, half as many bytes"
    ),
    "nocomm": _of_ddp(
        "bound without communication",
        "every rank keeps its own gradients and buffers: what the others take longer is "
        "communication that computing does not hide",
        is_bound=True,
    ),
    "openmp": Option(
        title="fused loop in C++",
        meaning="one loop over the points in C++, by all cores with OpenMP, reads each point once "
        "per iteration",
        cpu_only=True,
        is_loop=True,
    ),
    "triton": _cuda_loop(
        "fused kernel in Triton",
        "one kernel written in Triton reads each point once per iteration; a second one takes the "
        "step, since there blocks cannot wait for each other",
    ),
    "separate": _cuda_loop(
        "separate CUDA kernels",
        "forward, loss, gradient and update are one CUDA kernel each, as one would write it first",
    ),
    "streams": _cuda_loop(
        "fused CUDA kernel on four streams",
        "each of four streams goes through a quarter of the points per iteration, with four "
        "launches and their events",
    ),
    "fusedstep": _cuda_loop(
        "fused CUDA kernel", "one kernel does a whole iteration and reads each point once"
    ),
    "sharedsums": _cuda_loop(
        "fused CUDA kernel with shared memory",
        "the same, each block adding up in its shared memory",
    ),
    "persistent": _cuda_loop(
        "persistent CUDA kernel",
        "one kernel does all iterations in one launch, its points kept in registers and shared "
        "memory as far as they fit, with a barrier of all blocks in each iteration",
    ),
    "statistics": Option(
        title="bound by sufficient statistics",
        meaning="all iterations follow from five sums over the points, read once: a bound, not "
        "the same work",
        accelerator_only=True,
        cuda_only=True,
        is_loop=True,
        is_bound=True,
    ),
}
"""By name, in the order in which a variant names them."""


LOWER_PRECISIONS: Final[Mapping[str, str]] = {
    "tf32": "matrix products of fp32 values are computed in TF32 on tensor cores",
    "fp16": "torch.autocast computes most matrix products and convolutions in fp16, with scaled "
    "gradients",
    "bf16": "torch.autocast computes most matrix products and convolutions in bf16",
}
"""What a ladder may begin with, or have as a step -> what it does."""


def first_loss_scale(options: str) -> float:
    """Where the gradient scaler begins; 2 to the power of 16 is PyTorch's default."""
    return 2.0**32 if "highscale" in option_names(options) else 2.0**16


EXECUTIONS: Final[Mapping[str, str]] = {
    "compile": "compiled ",
    "graphs": "",
    NO_OPTIONS: "uncompiled ",
}
"""Options after which a step is no longer run operator by operator -> what is before the precision
of such code; the first of them names it, and the last is code without any.
"""


def execution(options: str) -> str:
    """The option after which a step is no longer run operator by operator; NO_OPTIONS without."""
    return next((name for name in EXECUTIONS if name in option_names(options)), NO_OPTIONS)


def is_bound(options: str) -> bool:
    """Whether these options leave out most of the work, and only show how fast others could at best
    be.
    """
    return any(OPTIONS[name].is_bound for name in option_names(options))


def option_names(options: str) -> tuple[str, ...]:
    """The options of a variant one by one; none for `none`."""
    return () if options == NO_OPTIONS else tuple(options.split(SEPARATOR))


def joined(names: Iterable[str]) -> str:
    """Options as a variant names them, in the order declared, each once."""
    chosen = set(names)
    unknown = sorted(chosen - OPTIONS.keys())
    if unknown:
        raise ConfigError(f"options: {unknown[0]!r} is unknown; use some of: {', '.join(OPTIONS)}")
    return SEPARATOR.join(name for name in OPTIONS if name in chosen) or NO_OPTIONS


_LEAST: Final = {"workers": 1, "accumulate": 2}
"""Below these a count names the eager baseline, which is called none."""


@dataclass(frozen=True, kw_only=True)
class Optimization:
    """How a training differs from the eager baseline: the fields of a variant that an axis
    `optimization` varies.

    `precision` is empty where it is none of the optimization's steps.
    """

    precision: str = ""
    workers: int = 0
    accumulation: int = 1
    options: str = NO_OPTIONS

    @property
    def name(self) -> str:
        """For instance `workers4+pinned`; `none` for the eager baseline."""
        parts = (
            self.precision,
            f"workers{self.workers}" if self.workers else "",
            f"accumulate{self.accumulation}" if self.accumulation > 1 else "",
            *option_names(self.options),
        )
        return SEPARATOR.join(filter(None, parts)) or NO_OPTIONS

    @classmethod
    def from_name(cls, name: str) -> "Optimization":
        """Read a name, whose parts may come in any order.

        Raises:
            ConfigError: a part is unknown, its count too small, or one is given twice.
        """
        counts: dict[str, int] = {}
        parts = option_names(name)
        for part in parts:
            match = re.fullmatch(r"(workers|accumulate)(\d+)", part)
            if match is not None:
                kind, count = match[1], int(match[2])
                if kind in counts or count < _LEAST[kind]:
                    raise ConfigError(
                        f"{name!r}: give {kind} once, with a number of {_LEAST[kind]} or more"
                    )
                counts[kind] = count
            elif part not in LOWER_PRECISIONS and part not in OPTIONS:
                raise ConfigError(
                    f"{part!r} in {name!r} is unknown; use some of workers<number>, "
                    f"accumulate<number>, {', '.join([*LOWER_PRECISIONS, *OPTIONS])}, joined "
                    f"by {SEPARATOR}, or {NO_OPTIONS}"
                )
            elif parts.count(part) > 1:
                raise ConfigError(f"{name!r}: give {part} once")
        precisions = [part for part in parts if part in LOWER_PRECISIONS]
        if len(precisions) > 1:
            raise ConfigError(f"{name!r}: give one precision")
        return cls(
            precision="".join(precisions),
            workers=counts.get("workers", 0),
            accumulation=counts.get("accumulate", 1),
            options=joined(part for part in parts if part in OPTIONS),
        )


def ladder(optimizations: Sequence[str]) -> list[str]:
    """The names of the eager baseline, of each optimization individually, of each with all before
    it, and of the last of these without each of its parts.

    Options made redundant by the new one are dropped, and a count or a precision takes the place of
    another.
    """
    names = [NO_OPTIONS, *(Optimization.from_name(name).name for name in optimizations)]
    cumulative: list[str] = []
    for name in optimizations:
        parts = option_names(name)
        replaced = {
            *map(_kind, parts),
            *(useless for part in parts if part in OPTIONS for useless in OPTIONS[part].replaces),
        }
        cumulative = [*(each for each in cumulative if _kind(each) not in replaced), *parts]
        names.append(Optimization.from_name(SEPARATOR.join(cumulative)).name)
    return list(dict.fromkeys([*names, *left_out(names[-1])]))


def left_out(name: str) -> dict[str, str]:
    """An optimization without each of its parts -> the part that it lacks."""
    parts = option_names(name)
    return {
        SEPARATOR.join(each for each in parts if each != part) or NO_OPTIONS: part for part in parts
    }


def _kind(part: str) -> str:
    return "precision" if part in LOWER_PRECISIONS else part.rstrip("0123456789")


def check_options(options: str, *, workers: int, precision: str, device: str) -> None:
    """Refuse options that do not exist, are out of order, or cannot be together.

    Raises:
        ConfigError: names the option and what to do.
    """
    names = option_names(options)
    ordered = joined(names)
    if ordered != options:
        raise ConfigError(f"options: {options!r} is to be written {ordered!r}")
    for name in names:
        useless = [
            other
            for other in OPTIONS[name].replaces
            if other in names or (other == "workers" and workers)
        ]
        if useless:
            raise ConfigError(
                f"options: {name} leaves nothing to do for {useless[0]}; leave one of them out"
            )
        if OPTIONS[name].accelerator_only and device == "cpu":
            raise ConfigError(
                f"options: {name} needs an accelerator; with device: cpu leave it out"
            )
        if OPTIONS[name].cpu_only and device != "cpu":
            raise ConfigError(f"options: {name} is for the CPU; with device: {device} leave it out")
        if OPTIONS[name].is_loop and (len(names) > 1 or workers):
            raise ConfigError(
                f"options: {name} is a whole loop of its own, which nothing else goes with; take "
                "it alone"
            )
    if "highscale" in names and precision != "fp16":
        raise ConfigError(
            f"options: highscale is for precision fp16; with {precision} no loss is scaled"
        )
    if "graphs" in names and precision == "fp16":
        raise ConfigError(
            "options: graphs cannot be captured with precision fp16, whose loss scaling decides "
            "on the host in every step; take bf16"
        )
    if "graphs" in names and "checkpoint" in names:
        raise ConfigError(
            "options: graphs cannot be captured with checkpoint, which reads the random numbers' "
            "state on the host in every step; leave one of them out"
        )
