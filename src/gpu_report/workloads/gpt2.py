"""GPT-2 (Radford et al. 2019): a decoder that predicts the next token of a synthetic text."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.utils.data import Dataset

from gpu_report.workloads.classification import TensorPairs, check_settings
from gpu_report.workloads.protocol import HELD_OUT_LOSS, WorkloadError
from gpu_report.workloads.synthetic import Integers, Split, stream

VOCABULARY: Final = 50_304
"""The 50,257 tokens of GPT-2, padded to a multiple of 128 as nanoGPT does, so that tensor cores can
be used."""
INITIAL_DEVIATION: Final = 0.02

USED_TOKENS: Final = 256
"""How many different tokens the texts contain."""
FOLLOWERS: Final = (0.5, 0.25, 0.125, 0.125)
"""How likely each of the tokens that may follow a token is."""
LOSS_FLOOR: Final = -sum(share * math.log(share) for share in FOLLOWERS)
"""Entropy of the next token in nats: no model has a lower loss, on average."""


class Dimensions(NamedTuple):
    """Of one size of the network."""

    layers: int
    heads: int
    width: int
    context: int = 1024


_124M: Final = Dimensions(layers=12, heads=12, width=768)
_WIDTHS: Final = (1024, 2048, 4096)
SIZES: Final[Mapping[str, Dimensions]] = {
    "tiny": Dimensions(layers=2, heads=2, width=64, context=64),
    "124m": _124M,
    **{f"124m_{context}": _124M._replace(context=context) for context in (512, 2048, 4096, 8192)},
    **{f"wide_{width}": Dimensions(layers=2, heads=width // 64, width=width) for width in _WIDTHS},
    "350m": Dimensions(layers=24, heads=16, width=1024),
}


class Attention(nn.Module):
    """Causal self-attention: a token sees itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, states: Tensor) -> Tensor:
        samples, time, width = states.shape
        by_head = self.query_key_value(states).view(samples, time, 3, self.heads, -1)
        query, key, value = by_head.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: Tensor = self.projection(seen.transpose(1, 2).reshape(samples, time, width))
        return projected


class Block(nn.Module):
    """Attention and a feed-forward network of four times the width, each added to what it takes."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, states: Tensor) -> Tensor:
        states = states + self.attention(self.attention_norm(states))
        added: Tensor = self.feed_forward(self.feed_forward_norm(states))
        return states + added


class Embedding(nn.Module):
    """Each token's vector plus that of its position."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(context, width)

    def forward(self, tokens: Tensor) -> Tensor:
        states: Tensor = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return states


class GPT2(nn.Module):
    """124,475,904 parameters in size 124m, of which 786,432 are the position table. Takes tokens
    (samples, time) and gives a score for each token that may come next (samples, time, vocabulary).

    There is no dropout. The output layer's weights are those of the token embedding if `tied`.
    """

    def __init__(self, dimensions: Dimensions, *, tied: bool = True) -> None:
        super().__init__()
        layers, heads, width, context = dimensions
        # Without values at first: each is drawn once, below.
        with torch.device("meta"):
            self.embedding = Embedding(width, context)
            self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.to_empty(device="cpu")
        if tied:
            self.head.weight = self.embedding.tokens.weight
        for name, parameter in self.named_parameters():
            # Each layer adds two projections to its states: the deviation of their sum stays.
            is_added = name.endswith(("attention.projection.weight", "feed_forward.2.weight"))
            if parameter.dim() > 1:
                deviation = INITIAL_DEVIATION / (math.sqrt(2 * layers) if is_added else 1)
                nn.init.normal_(parameter, std=deviation)
            else:
                nn.init.constant_(parameter, 0 if name.endswith("bias") else 1)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(self.blocks(self.embedding(tokens))))
        return scores


@dataclass(frozen=True, kw_only=True)
class GPT2LanguageModel:
    """Learns to predict the next token, in the sizes of SIZES: `124m_2048` has a context of 2048
    tokens, `wide_2048` two layers of that width.

    Stages of several devices cannot share the weights of the first and of the last layer: they need
    `tied` to be false.
    """

    size: str
    seed: int
    train_samples: int = 256
    test_samples: int = 32
    learning_rate: float = 1e-4
    tied: bool = True

    title: ClassVar[str] = "GPT-2"
    quality_name: ClassVar[str] = HELD_OUT_LOSS
    loss_name: ClassVar[str] = "cross-entropy per token"
    eager_attention: ClassVar[str] = "math"
    data_description: ClassVar[str] = (
        f"Generated: texts of {USED_TOKENS} different tokens out of {VOCABULARY}, each followed by "
        f"one of {len(FOLLOWERS)} tokens with fixed probabilities, so that no model has a loss "
        f"below {LOSS_FLOOR:.2f} nats on average."
    )

    def __post_init__(self) -> None:
        check_settings(
            "gpt2",
            size=self.size,
            sizes=tuple(SIZES),
            train_samples=self.train_samples,
            test_samples=self.test_samples,
            learning_rate=self.learning_rate,
        )

    @property
    def tokens_per_sample(self) -> int:
        return SIZES[self.size].context

    @property
    def sample_description(self) -> str:
        return f"{self.tokens_per_sample} tokens out of {VOCABULARY}"

    @property
    def optimizer_name(self) -> str:
        return f"AdamW, learning rate {self.learning_rate:g}, weight decay 0.1 of matrices"

    def build_model(self) -> nn.Module:
        return GPT2(SIZES[self.size], tied=self.tied)

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        """Weights of matrices and embeddings decay, biases and normalizations do not."""
        groups = [
            {
                "params": [each for each in model.parameters() if (each.dim() > 1) == decays],
                "weight_decay": 0.1 if decays else 0.0,
            }
            for decays in (True, False)
        ]
        return AdamW(groups, lr=self.learning_rate, betas=(0.9, 0.95))

    def train_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return self._texts("train", self.train_samples)

    def test_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return self._texts("test", self.test_samples)

    def _texts(self, split: Split, samples: int) -> TensorPairs:
        drawn = torch.from_numpy(
            texts(samples=samples, length=self.tokens_per_sample + 1, seed=self.seed, split=split)
        )
        return TensorPairs(drawn[:, :-1], drawn[:, 1:])

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

    def chance(self) -> float:
        """The loss of naming each of the tokens that occur with the same probability."""
        return math.log(USED_TOKENS)

    def flops_per_token(self) -> tuple[float, str]:
        """Of training, and the formula: 6 N + 12 L H Q T, Chowdhery et al. 2022 (PaLM), appendix B.

        N counts the parameters without the position table, whose lookup multiplies nothing; that of
        tokens is in it as the output layer. What checkpointing computes again does not count.
        """
        layers, heads, width, context = SIZES[self.size]
        block = 12 * width**2 + 13 * width
        multiplied = layers * block + 2 * width + VOCABULARY * width
        return 6 * multiplied + 12 * layers * width * context, (
            f"6 N + 12 L H Q T, N = {multiplied:,} parameters without the position table, "
            f"L = {layers} layers, H = {heads} heads of Q = {width // heads}, T = {context} tokens"
        )

    def checkpointed_blocks(self, model: nn.Module) -> Iterable[nn.Module]:
        return cast("GPT2", model).blocks

    def pieces(self, model: nn.Module) -> Iterator[nn.Module]:
        if self.tied:
            raise WorkloadError(
                "workloads.gpt2.tied: the first and the last stage cannot share their weights; "
                "set it to false"
            )
        whole = cast("GPT2", model)
        yield whole.embedding
        yield from whole.blocks
        yield nn.Sequential(whole.norm, whole.head)


def texts(*, samples: int, length: int, seed: int, split: Split) -> Integers:
    """Tokens (samples, length) of a chain in which each token has the followers of `followers`."""
    draws = stream(seed=seed, split=split, quantity="tokens").random((samples, length))
    choices = np.searchsorted(np.cumsum(FOLLOWERS)[:-1], draws, side="right")
    following = followers()
    chain = np.empty((samples, length), dtype=np.int64)
    chain[:, 0] = draws[:, 0] * USED_TOKENS
    for before, now in pairwise(range(length)):
        chain[:, now] = following[chain[:, before], choices[:, now]]
    return chain * (VOCABULARY // USED_TOKENS)


def followers() -> Integers:
    """Which tokens may follow each (tokens, followers); part of the task, so the same for every
    seed. Each token follows as many others as it has followers, so that all occur alike often.
    """
    ring = np.random.default_rng(USED_TOKENS).permutation(USED_TOKENS)
    following = np.empty((USED_TOKENS, len(FOLLOWERS)), dtype=np.int64)
    following[ring] = np.stack([np.roll(ring, -1 - ahead) for ahead in range(len(FOLLOWERS))], 1)
    return following
