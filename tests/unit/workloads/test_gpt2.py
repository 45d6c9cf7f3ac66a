"""GPT-2 sees no later token, computes the same with every attention kernel, and counts its work."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.workloads import gpt2
from gpu_report.workloads.gpt2 import SIZES, GPT2LanguageModel, texts
from gpu_report.workloads.protocol import WorkloadError
from tests.unit.workloads.training import all_of

FEW: dict[str, Any] = {"seed": 0, "train_samples": 4, "test_samples": 4}
TINY = GPT2LanguageModel(size="tiny", **FEW)


def test_the_published_size_has_the_parameters_of_gpt2_with_a_padded_vocabulary() -> None:
    with torch.device("meta"):
        model = gpt2.GPT2(SIZES["124m"])

    assert sum(each.numel() for each in model.parameters()) == 124_475_904


@pytest.fixture
def few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a tiny network's time goes into the scores of all tokens."""
    monkeypatch.setattr(gpt2, "VOCABULARY", gpt2.USED_TOKENS)


def gradients(model: nn.Module, tokens: Tensor, target: Tensor) -> list[Tensor]:
    model.zero_grad()
    torch.autograd.backward(TINY.loss(model(tokens), target))
    return [each.grad.clone() for each in model.parameters() if each.grad is not None]


@pytest.mark.usefixtures("few_tokens")
def test_changing_a_later_token_changes_no_earlier_score() -> None:
    model, (tokens, _) = TINY.build_model(), all_of(TINY.train_data())
    changed = tokens.clone()
    changed[:, 40] = (changed[:, 40] + 1) % gpt2.VOCABULARY

    before, after = model(tokens), model(changed)

    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.allclose(before[:, 40:], after[:, 40:])


@pytest.mark.usefixtures("few_tokens")
def test_attention_kernels_give_the_same_loss_and_gradients() -> None:
    model, batch = TINY.build_model(), all_of(TINY.train_data())

    with sdpa_kernel(SDPBackend.MATH):
        by_formula = gradients(model, *batch)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        in_tiles = gradients(model, *batch)

    for one, other in zip(by_formula, in_tiles, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("few_tokens")
@pytest.mark.parametrize("size", SIZES)
def test_the_formula_counts_the_parameters_of_the_network(size: str) -> None:
    dimensions = SIZES[size]
    with torch.device("meta"):
        model = gpt2.GPT2(dimensions)
    parameters = sum(each.numel() for each in model.parameters())
    counted = parameters - dimensions.context * dimensions.width

    flops, formula = GPT2LanguageModel(size=size, **FEW).flops_per_token()

    attention = 12 * dimensions.layers * dimensions.width * dimensions.context
    assert flops == 6 * counted + attention
    assert f"N = {counted:,} parameters" in formula


@pytest.mark.usefixtures("few_tokens")
def test_the_formula_is_within_three_percent_of_the_operations_of_a_step() -> None:
    model, batch = TINY.build_model(), all_of(TINY.train_data())
    counter = FlopCounterMode(display=False)

    with counter, sdpa_kernel(SDPBackend.MATH):
        gradients(model, *batch)

    flops, _ = TINY.flops_per_token()
    assert counter.get_total_flops() == pytest.approx(flops * batch[0].numel(), rel=0.03)


@pytest.mark.usefixtures("few_tokens")
def test_the_output_layer_shares_the_weights_of_the_embedding_unless_told_otherwise() -> None:
    tied, untied = (
        GPT2LanguageModel(size="tiny", tied=each, **FEW).build_model() for each in (True, False)
    )

    assert len(list(untied.parameters())) == len(list(tied.parameters())) + 1


@pytest.mark.usefixtures("few_tokens")
def test_sums_over_all_layers_begin_with_smaller_weights_and_biases_at_zero() -> None:
    model = gpt2.GPT2(gpt2.Dimensions(layers=8, heads=4, width=256, context=64))
    found = {name: each.std().item() for name, each in model.named_parameters() if each.dim() > 1}
    added = [name for name in found if ".projection." in name or name.endswith("forward.2.weight")]

    assert len(added) == 2 * 8
    for name, deviation in found.items():
        expected = 0.02 / (4 if name in added else 1)
        assert deviation == pytest.approx(expected, rel=0.03), name
    assert not any(each.any() for name, each in model.named_parameters() if name.endswith("bias"))


@pytest.mark.usefixtures("few_tokens")
def test_stages_are_refused_weights_that_the_first_and_the_last_share() -> None:
    with pytest.raises(WorkloadError, match=r"^workloads\.gpt2\.tied: .* set it to false$"):
        list(TINY.pieces(TINY.build_model()))


@pytest.mark.usefixtures("few_tokens")
def test_biases_and_normalizations_do_not_decay() -> None:
    decaying, others = TINY.build_optimizer(TINY.build_model()).param_groups

    assert (decaying["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert {each.dim() for each in decaying["params"]} == {2}
    assert {each.dim() for each in others["params"]} == {1}


@pytest.mark.usefixtures("few_tokens")
def test_the_next_token_is_as_uncertain_as_the_description_says() -> None:
    drawn = torch.from_numpy(texts(samples=20_000, length=64, seed=0, split="train"))
    before, after = drawn[:, :-1].flatten(), drawn[:, 1:].flatten()
    pairs = (before * gpt2.VOCABULARY + after).bincount()
    singles = before.bincount()

    def entropy(counts: Tensor) -> float:
        shares = counts[counts > 0] / counts.sum()
        return -(shares * shares.log()).sum().item()

    assert entropy(pairs) - entropy(singles) == pytest.approx(gpt2.LOSS_FLOOR, abs=0.005)
    assert entropy(singles) == pytest.approx(TINY.chance(), abs=0.005)
