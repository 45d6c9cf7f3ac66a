"""Options tried on a model of one's own: gains with intervals, the loss beside them, and reasons
where one is not.
"""

import copy
import math
import random
import re
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpu_report import compare_options
from gpu_report.errors import ProfileError
from gpu_report.measure.run import Stopped
from gpu_report.records.record import Load
from gpu_report.user_training import option_gains
from gpu_report.user_training.option_gains import OptionGains, _measured
from gpu_report.user_training.process import OwnResult, OwnTraining, train_in_fresh_process
from tests.unit.user_training import own_model
from tests.unit.user_training.test_batch_size import measured

MODULE = "tests.unit.user_training.own_model"


def test_fresh_processes_give_gains_individually_and_cumulatively(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = compare_options(
        f"{MODULE}:build_images",
        f"{MODULE}:make_images",
        loss=f"{MODULE}:image_loss",
        metric=f"{MODULE}:sum_of_weights",
        options=["bf16", "pinned", "fused"],
        device="cpu",
        processes=2,
        steps=3,
        seconds=0.1,
    )

    assert found.is_fresh
    assert [*found.individual] == ["bf16", "pinned", "fused"]
    assert [*found.cumulative] == ["bf16", "fused"]
    assert found.individual["fused"].speedup.count == 2
    assert "no batch is copied" in found.individual["pinned"].reason
    unchanged = found.individual["fused"]
    losses = [
        each.loss
        for seed in (0, 1)
        if isinstance(each := train_in_fresh_process(_baseline(seed)), OwnResult)
    ]
    assert unchanged.loss == pytest.approx(sum(losses) / 2, rel=1e-4)
    assert unchanged.metric > 0
    assert found.individual["bf16"].loss != unchanged.loss
    printed = capsys.readouterr().out
    assert printed.endswith(f"\n\n{found.summary()}\n")
    assert len(found.summary().splitlines()) == 6 + bool(found.problem)
    assert max(map(len, printed.splitlines())) <= 120


def _baseline(seed: int) -> OwnTraining:
    return OwnTraining(
        build=own_model.build_images,
        make_batch=own_model.make_images,
        loss=own_model.image_loss,
        device="cpu",
        seed=seed,
        loss_steps=3,
        seconds=0.1,
    )


def test_an_option_that_does_not_apply_has_a_reason_and_is_in_no_sum() -> None:
    """A model that is built is not captured in the user's process."""
    found = compare_options(
        own_model.build(),
        own_model.make_batch(4),
        options=["channelslast", "graphs"],
        device="cpu",
        steps=1,
        seconds=0.1,
    )

    assert "four dimensions" in found.individual["channelslast"].reason
    assert "pass a function" in found.individual["graphs"].reason
    assert found.cumulative == {}
    assert "not measured" in found.summary()


def test_a_model_that_is_built_is_copied_and_everything_is_as_it_was() -> None:
    model, batch = own_model.build_images().eval(), own_model.make_images()
    weights, numbers, of_python = (
        copy.deepcopy(model.state_dict()),
        torch.random.get_rng_state(),
        random.getstate(),
    )

    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        found = compare_options(
            model,
            batch,
            loss=own_model.image_loss,
            options=["channelslast"],
            device="cpu",
            steps=2,
            seconds=0.3,
        )
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False

    gain = found.individual["channelslast"].speedup
    assert gain.count == 1
    assert math.isnan(gain.low)
    assert math.isnan(found.baseline.low)
    assert "no intervals" in found.summary()
    assert not model.training
    assert all(torch.equal(weights[name], now) for name, now in model.state_dict().items())
    assert torch.equal(numbers, torch.random.get_rng_state())
    assert of_python == random.getstate()


@pytest.mark.slow
def test_a_run_with_itself_in_fresh_processes_is_about_as_fast() -> None:
    """With 99.9 % confidence, as 95 % would fail one time in 20."""

    def train(training: OwnTraining) -> OwnResult | Stopped:
        return train_in_fresh_process(replace(training, options=()))

    results = _measured(_baseline(0), ["fused"], train, processes=4)

    speedup = OptionGains(results=results, is_fresh=True).individual["fused"].speedup

    assert speedup.count == 4
    assert 1 / 3 < speedup.value < 3
    assert speedup.p > 0.001


GONE = Stopped(status="failed", reason="gone astray")


def _found(**failing: int) -> OptionGains:
    """Four processes each, where bf16 doubles the speed; of a name given, only so many before one
    fails.
    """

    def of(names: tuple[str, ...]) -> list[OwnResult | Stopped]:
        per_s = 2e3 if "bf16" in names else 1e3
        good = measured(8, peak_mib=1, limit_mib=2, per_s=per_s)
        number = failing.get("_".join(names) or "baseline", 4)
        return [good] * number + [GONE] * (number < 4)

    return OptionGains(
        results={each: of(each) for each in ((), ("tf32",), ("bf16",), ("tf32", "bf16"))},
        is_fresh=True,
    )


@pytest.mark.parametrize(
    ("failing", "count_of_tf32", "said"),
    [
        ({"tf32": 2}, 2, "process 3 failed: gone astray"),
        ({"tf32_bf16": 0}, 4, "gone astray"),
        ({"baseline": 3}, 3, "process 4 failed: gone astray"),
    ],
    ids=["an option", "a sum of options", "the baseline"],
)
def test_what_fails_in_a_later_process_has_the_reason_and_those_before_are_compared(
    failing: dict[str, int], count_of_tf32: int, said: str
) -> None:
    found = _found(**failing)

    assert found.individual["bf16"].speedup.value == pytest.approx(2)
    assert found.individual["tf32"].speedup.count == count_of_tf32
    assert said in found.summary()
    assert "nan" not in found.summary()
    if "tf32" in failing:
        assert found.summary().count(said) == 1
        assert [*found.cumulative] == ["tf32", "bf16"]
        assert found.cumulative["bf16"].speedup.value == pytest.approx(2)


def test_each_process_is_shown_with_its_time_before_the_next_begins(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shown: list[list[str]] = []

    def train(training: OwnTraining) -> OwnResult | Stopped:
        shown.append(capfd.readouterr().out.splitlines())
        if "pinned" in training.options:
            return Stopped(status="skipped", reason="no batch is copied")
        return measured(8, peak_mib=1, limit_mib=2, per_s=1e3)

    monkeypatch.setattr(option_gains, "train_in_fresh_process", train)
    parts = own_model.build_images, own_model.make_images

    compare_options(*parts, options=["bf16", "pinned"], device="cpu", processes=2)

    assert [len(lines) for lines in shown] == [1] * 5
    assert shown[0][0].startswith("process")
    assert re.match(r"1 of 2 .*[0-9] (s|ms|µs) +eager fp32 baseline: 1000 samples/s", shown[1][0])
    assert "pinned memory: no batch is copied" in shown[3][0].replace("pinned host", "pinned")
    assert shown[4][0].startswith("2 of 2")


def test_no_speedup_is_given_where_others_used_the_cpu_in_it_or_in_the_baseline() -> None:
    def of(share: float) -> OwnResult:
        found = measured(8, peak_mib=1, limit_mib=2, per_s=1e3)
        load = Load(foreign_cpu_share=share, steal_share=0.0)
        return replace(found, measured=replace(found.measured, load=load))

    quiet, loaded = [of(0.0)] * 4, [of(0.0)] * 3 + [of(0.5)]
    results = {(): quiet, ("tf32",): quiet, ("bf16",): loaded, ("tf32", "bf16"): quiet}
    found = OptionGains(results=results, is_fresh=True)

    rows = {line.split()[0]: line for line in found.summary().splitlines()}
    assert "not resolved" in rows["bf16"]
    assert "not resolved" not in rows["TF32"]
    assert "others used 50 % of the CPU time" in found.problem
    assert found.problem in found.summary()
    of_baseline = OptionGains(results={**results, (): loaded}, is_fresh=True)
    assert of_baseline.individual["tf32"].load
    assert not OptionGains(results={(): quiet, ("tf32",): quiet}, is_fresh=True).problem


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"options": ["fuzed"]}, "fuzed"),
        ({"options": ["bf16", "bf16"]}, "twice"),
        ({"options": []}, "options: none"),
        ({"processes": 2.5}, "2.5"),
        ({"seconds": "3"}, "seconds"),
    ],
)
def test_what_makes_no_sense_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        compare_options(own_model.build(), own_model.make_batch(4), **wrong)


def test_a_model_that_cannot_be_trained_is_one_line() -> None:
    with pytest.raises(ProfileError, match=r"without any option: .*KeyError: 'weights'"):
        compare_options(own_model.raise_key_error, own_model.make_batch_of_four, device="cpu")
