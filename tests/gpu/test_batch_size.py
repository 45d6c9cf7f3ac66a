"""On an accelerator: memory that runs out is survived, a limit is kept, and nothing is left in its
memory.
"""

import pytest
import torch

from gpu_report import compare_options, find_batch_size
from gpu_report.measure.run import Stopped
from gpu_report.user_training.process import OwnResult, OwnTraining, train_in_fresh_process
from tests.unit.user_training import own_model

LIMIT_GIB = 2.0


def on_accelerator(samples: int) -> OwnResult | Stopped:
    return train_in_fresh_process(
        OwnTraining(
            build=own_model.build,
            make_batch=own_model.make_batch,
            samples=samples,
            memory_limit_mib=LIMIT_GIB * 1024,
            seconds=1.0,
        )
    )


def test_the_largest_batch_is_within_2_percent_and_no_memory_is_left() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs CUDA's allocator, which can be limited")
    free_before, _ = torch.cuda.mem_get_info()

    found = find_batch_size(
        own_model.build, own_model.make_batch, memory_limit=LIMIT_GIB, seconds=1.0
    )

    assert found.is_resolved
    assert isinstance(on_accelerator(found.largest.samples), OwnResult)
    over = on_accelerator(int(found.largest.samples * 1.02) + 2)
    assert isinstance(over, Stopped)
    assert over.status == "oom"
    fitting = found.largest.fitting
    assert fitting.measured.memory_kind == "allocator"
    assert fitting.measured.memory_peak_mib <= fitting.memory_taken_mib <= fitting.memory_limit_mib
    free_after, _ = torch.cuda.mem_get_info()
    assert abs(free_before - free_after) < 2**26


def test_every_option_that_applies_is_tried_on_the_accelerator() -> None:
    found = compare_options(
        own_model.build_images,
        own_model.make_images,
        loss=own_model.image_loss,
        options=["bf16", "pinned", "channelslast", "fused"],
        processes=1,
        seconds=1.0,
    )

    assert not [gain.reason for gain in found.individual.values() if gain.reason]
    assert [*found.cumulative] == ["bf16", "pinned", "channelslast", "fused"]
