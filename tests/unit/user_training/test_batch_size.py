"""The search for a batch size: at most 12 tries, each in a fresh process, and a largest within 2 %
of the true one.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report import find_batch_size
from gpu_report.cli import main
from gpu_report.errors import ConfigError, ProfileError
from gpu_report.measure.run import Stopped
from gpu_report.records.record import Load
from gpu_report.study.search import Bounds
from gpu_report.user_training import batch_size
from gpu_report.user_training.batch_size import HEAD, MOST_PROBES, BatchSizes, Probe
from gpu_report.user_training.blocks import Measured
from gpu_report.user_training.process import OwnResult, OwnTraining, train_in_fresh_process
from tests.unit.user_training import own_model

MODULE = "tests.unit.user_training.own_model"
LIMIT_GIB = 0.9
OUT_OF_MEMORY = Stopped(status="oom", reason="out of memory")
FAILED = Stopped(status="failed", reason="index out of 32 bits")


def measured(samples: int, *, peak_mib: float, limit_mib: float, per_s: float) -> OwnResult:
    time_ms = samples / per_s * 1e3
    return OwnResult(
        loss=0.0,
        metric=0.0,
        memory_limit_mib=limit_mib,
        memory_taken_mib=(peak_mib + limit_mib) / 2,
        measured=Measured(
            torch_version="2",
            device="cpu",
            samples=samples,
            step_ms=time_ms,
            steps=4,
            block_steps=1,
            block_times_ms=[time_ms] * 4,
            data_wait_shares=[],
            load=Load(foreign_cpu_share=0.0, steal_share=0.0),
            has_settled=True,
            profiled_times_ms=[],
            trace=b"",
            memory_peak_mib=peak_mib,
            memory_in_use_mib=[],
            memory_free_mib=0.0,
            memory_kind="allocator",
        ),
    )


def searched(
    result_of: Callable[[int], OwnResult | Stopped], bounds: Bounds | None = None
) -> BatchSizes:
    found = BatchSizes(probes=[], bounds=bounds or Bounds())
    while len(found.probes) < MOST_PROBES and (samples := found.next_samples()) is not None:
        assert samples not in [each.samples for each in found.probes]
        found = replace(found, probes=[*found.probes, Probe(samples, result_of(samples))])
    return found


def with_blocks(samples: int, rates_per_s: Sequence[float], *, others: float = 0.0) -> Probe:
    """One that fits, with these rates in its blocks, and what others used of the CPU meanwhile."""
    found = measured(samples, peak_mib=samples, limit_mib=1000, per_s=1)
    of_blocks = replace(
        found.measured,
        block_times_ms=[samples / per_s * 1e3 for per_s in rates_per_s],
        load=Load(foreign_cpu_share=others, steal_share=0.0),
    )
    return Probe(samples, replace(found, measured=of_blocks))


@given(
    limit_mib=st.sampled_from([600, 16_000, 80_000]),
    fixed_mib=st.floats(1, 500),
    sought=st.floats(0, 5.5).map(lambda power: int(10**power)),
    fragmented=st.floats(0.8, 1),
    bent=st.sampled_from([0.0, 0.5, 1.0]),
    failing=st.sampled_from([OUT_OF_MEMORY, FAILED]),
)
def test_the_largest_is_within_2_percent_of_the_true_one_whatever_memory_a_sample_takes(
    *,
    limit_mib: int,
    fixed_mib: float,
    sought: int,
    fragmented: float,
    bent: float,
    failing: Stopped,
) -> None:
    """`bent` is the part that grows with the square of the samples, as the maps between the samples
    of a batch do; `fragmented` is the part of the samples that fit where memory is fragmented. A
    kernel may also fail from some size on.
    """
    room_mib = limit_mib - fixed_mib
    true_largest = max(1, int(sought * fragmented))

    def result_of(samples: int) -> OwnResult | Stopped:
        if samples > true_largest:
            return failing
        part = samples / (sought + 0.5)
        peak_mib = fixed_mib + room_mib * ((1 - bent) * part + bent * part**2)
        return measured(
            samples, peak_mib=peak_mib, limit_mib=limit_mib, per_s=1e4 * samples / (samples + 100)
        )

    found = searched(result_of)

    assert found.is_resolved
    assert found.largest.samples <= true_largest <= found.largest.samples * 1.02
    if failing is FAILED:
        assert FAILED.reason in found.summary()


def test_the_smallest_about_as_fast_is_bracketed_within_a_factor_of_two() -> None:
    """Throughput that is flat from 100 samples on."""
    found = searched(
        lambda samples: (
            measured(samples, peak_mib=100 + samples, limit_mib=5000, per_s=min(samples, 100))
            if samples <= 4900
            else OUT_OF_MEMORY
        )
    )

    assert 95 <= found.smallest_near_fastest.samples <= 200
    assert found.fastest.throughput_per_s.value == 100
    assert len(found.summary().splitlines()) <= 2 + MOST_PROBES + 4


@given(
    true_largest=st.integers(10, 100_000),
    unit=st.integers(1, 16),
    maximum=st.integers(16, 20_000),
)
def test_only_multiples_up_to_the_maximum_are_tried_and_the_largest_of_them_is_found(
    true_largest: int, unit: int, maximum: int
) -> None:
    def result_of(samples: int) -> OwnResult | Stopped:
        assert samples <= maximum
        assert samples % unit == 0
        if samples > true_largest:
            return OUT_OF_MEMORY
        peak_mib = 100 + 900 * samples / (true_largest + 0.5)
        return measured(samples, peak_mib=peak_mib, limit_mib=1000, per_s=samples)

    found = searched(result_of, Bounds(maximum=maximum, multiple_of=unit))

    if true_largest < unit:
        assert not found.fitting
        return
    sought = min(true_largest, maximum) // unit * unit
    assert found.is_resolved
    assert found.largest.samples <= sought <= found.largest.samples * 1.02


def test_a_search_ends_at_the_maximum_and_says_so() -> None:
    def fits(samples: int) -> OwnResult:
        return measured(samples, peak_mib=10, limit_mib=1000, per_s=samples)

    found = searched(fits, Bounds(maximum=100, multiple_of=8))

    assert (found.largest.samples, found.is_resolved) == (96, True)
    assert "no larger one is allowed" in found.answers()


def test_the_smallest_about_as_fast_is_the_smallest_whose_mean_reaches_95_percent() -> None:
    found = BatchSizes(
        probes=[
            with_blocks(32, [1000, 1010, 1020, 1030]),
            with_blocks(64, [1400, 1600, 1800, 2000]),  # its interval reaches it
            with_blocks(128, [1700, 1800, 2000, 2400]),
            with_blocks(413, [1700, 1900, 2100, 2500]),
        ]
    )

    assert found.fastest.samples == 413
    assert found.smallest_near_fastest.samples == 128
    assert "its interval overlaps with 64 and 128" in found.answers()
    assert (
        "smallest  128, which reaches at least 95.0 % of the fastest; 64 reaches 8"
        in found.answers()
    )


def test_sizes_with_intervals_apart_are_not_called_alike_nor_fast_where_others_used_the_cpu() -> (
    None
):
    slower, faster = [1700, 1702, 1699, 1701], [2000, 2001, 2002, 2003]
    quiet = BatchSizes(probes=[with_blocks(128, slower), with_blocks(413, faster)])
    loaded = BatchSizes(probes=[with_blocks(128, slower), with_blocks(413, faster, others=0.47)])

    assert quiet.smallest_near_fastest.samples == 413
    assert "overlaps" not in quiet.answers()
    assert not quiet.problem
    assert "others used 47 % of the CPU time" in loaded.problem
    assert loaded.problem in loaded.answers()
    assert "largest   413" in loaded.answers()
    assert not re.search("^(fastest|smallest)", loaded.answers(), re.MULTILINE)


def test_each_try_is_shown_before_the_next_begins_although_nothing_fits_yet(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shown: list[list[str]] = []

    def train(training: OwnTraining, **_: object) -> OwnResult | Stopped:
        shown.append(capfd.readouterr().out.splitlines())
        if training.samples == 1:
            return Stopped(status="failed", reason="needs two samples")
        assert training.samples is not None
        return measured(training.samples, peak_mib=10, limit_mib=1000, per_s=100)

    monkeypatch.setattr(batch_size, "train_in_fresh_process", train)

    find_batch_size(own_model.build, own_model.make_batch, device="cpu", maximum=3)

    assert [len(lines) for lines in shown] == [1, 1, 1]
    assert shown[0] == [HEAD]
    assert "needs two samples" in shown[1][0]
    assert shown[2][0].endswith("fits")


def test_the_headroom_and_a_largest_that_is_not_resolved_are_said() -> None:
    """An allocator reserves more than the tensors have: here half of what is left beside them."""
    fits = Probe(1000, measured(1000, peak_mib=600, limit_mib=1000, per_s=1))
    over = Probe(1100, OUT_OF_MEMORY)

    found = BatchSizes(probes=[fits, over])

    assert found.headroom == pytest.approx(0.2)
    assert "20.0 % of 1000 MiB left" in found.answers()
    assert (
        "not resolved after 2 tries: the true largest is from 1000 to 1099; take 1000, or"
        in found.answers()
    )
    assert "the true largest is 1000 or more" in BatchSizes(probes=[fits]).answers()
    assert "not resolved" not in BatchSizes(probes=[fits, replace(over, samples=1020)]).answers()


def test_a_size_that_is_too_slow_for_blocks_decides_nothing_about_speed() -> None:
    def result_of(samples: int) -> OwnResult | Stopped:
        if samples > 4900:
            return OUT_OF_MEMORY
        found = measured(samples, peak_mib=100 + samples, limit_mib=5000, per_s=min(samples, 2000))
        without_blocks = replace(found.measured, block_times_ms=[])
        return replace(found, measured=without_blocks) if samples > 1024 else found

    found = searched(result_of)

    assert found.largest.samples > 4800
    assert found.fastest.samples == found.smallest_near_fastest.samples == 1024
    assert "too slow" in found.answers()


@pytest.mark.slow
def test_it_finds_what_trying_every_number_of_samples_finds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts: dict[str, Any] = {
        "build": own_model.build_large,
        "make_batch": own_model.make_batch,
        "device": "cpu",
        "seconds": 0.1,
    }
    found = find_batch_size(**parts, memory_limit=LIMIT_GIB)

    training = OwnTraining(**parts, memory_limit_mib=LIMIT_GIB * 1024)
    fits = [
        isinstance(train_in_fresh_process(replace(training, samples=samples)), OwnResult)
        for samples in range(found.largest.samples - 1, found.largest.samples + 3)
    ]
    assert fits == [True, True, False, False]
    assert 0 < found.headroom < 0.2
    rows = [each.row() for each in found.probes]
    assert capsys.readouterr().out == "\n".join([HEAD, *rows, found.answers(), ""])


COMMAND = f"{MODULE}:raise_key_error --batch {MODULE}:make_batch --device cpu"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"train --batch {MODULE}:make_batch", "MODEL: 'train' .*train:build_model"),
        (f"{MODULE}:build", "--batch: .*module:function"),
        ("resnet19", "'resnet19' is unknown; use one of unet"),
        (COMMAND, "KeyError: 'weights'"),
        (
            f"{COMMAND} --memory-limit 0.1".replace("raise_key_error", "build"),
            r"the model does not fit into memory, limited to 0\.1 GiB .* with 1 sample: ",
        ),
    ],
)
def test_the_command_names_what_it_misses_and_what_cannot_be_trained(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["batch-size", *arguments.split()]) == 2

    said_in_a_line = capsys.readouterr().err
    assert re.search(said, said_in_a_line)
    assert said_in_a_line.count("\n") == 1


@pytest.mark.slow
def test_a_layer_that_needs_two_samples_begins_with_two_and_an_error_bounds_the_size() -> None:
    found = find_batch_size(
        own_model.build_normalized,
        own_model.make_at_most_100,
        device="cpu",
        memory_limit=2.0,
        seconds=0.1,
    )

    assert [each.samples for each in found.probes][:2] == [1, 2]
    assert found.largest.samples == 100
    over = found.smallest_too_large
    assert over is not None
    assert over.stopped.reason.startswith("making a batch raised ")
    assert "no more than 32 bits" in over.stopped.reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"accumulate": 1.5},
        {"maximum": 0},
        {"maximum": 4, "multiple_of": 8},
        {"margin": 1},
        {"memory_limit": "2"},
        {"seconds": 0.0},
        {"precision": "fp8"},
    ],
)
def test_what_makes_no_sense_is_named_before_any_process_starts(wrong: dict[str, Any]) -> None:
    with pytest.raises((ProfileError, ConfigError), match=rf"^{next(iter(wrong))}: .*\Z"):
        find_batch_size(own_model.build, own_model.make_batch, **wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"build": "nosuch"}, "'nosuch' is unknown"),
        ({"build": "unet", "size": "3px"}, "unet has no size '3px'"),
        ({"build": "unet", "accumulate": 2}, "brings all of its training"),
        ({"build": own_model.build, "make_batch": own_model.make_batch, "size": "3px"}, "size"),
        ({"build": own_model.build}, "make_batch"),
        (
            {"build": own_model.build(), "make_batch": own_model.make_batch},
            "^build: it is a Padded",
        ),
        (
            {"build": own_model.build, "make_batch": own_model.make_batch(1)},
            "^make_batch: it is a Tensor",
        ),
    ],
)
def test_what_does_not_go_with_a_name_or_is_built_already_is_said(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises((ProfileError, ConfigError), match=said):
        find_batch_size(**wrong, device="cpu")


@pytest.mark.slow
def test_a_built_in_workload_is_searched_by_its_name_beyond_its_training_set() -> None:
    training = OwnTraining(
        build="cnn", make_batch=None, size="small", samples=2100, device="cpu", seconds=0.1
    )
    result = train_in_fresh_process(training)

    assert isinstance(result, OwnResult)
    assert result.measured.samples == 2100


def test_functions_of_a_notebook_are_refused_with_what_to_do() -> None:
    cell = (
        "import torch, gpu_report\n"
        "def build(): return torch.nn.Linear(4, 3)\n"
        "def batch(samples): return torch.randn(samples, 4), torch.ones(samples, 3)\n"
        "gpu_report.find_batch_size(build, batch, loss=torch.nn.functional.mse_loss)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-"], input=cell, capture_output=True, text=True, check=False
    )

    assert "put these functions into a file" in ended.stderr.splitlines()[-1]
