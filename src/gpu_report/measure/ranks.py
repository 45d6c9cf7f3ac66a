"""What the ranks of one repetition measured, gathered, and the one training that they make
together.
"""

import platform
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from gpu_report.measure.memory import MemoryMeter
from gpu_report.measure.timing import float32_values
from gpu_report.measure.training import Trained, Training, whole_model
from gpu_report.measure.world import check_equal_parameters
from gpu_report.records.record import Rank, TimedEpoch, timed_part
from gpu_report.study.options import is_bound

_MIB = 2**20


def gather_ranks(
    training: Training, trained: Trained, memory: MemoryMeter, *, agent: int
) -> list[Rank]:
    """What every rank measured, in their order; each of them gets the list.

    `agent` is the number of the one that started this rank.

    Raises:
        WorkloadError: the ranks have trained different models.
    """
    device = training.device
    memory_peak_mib = memory.peak_mib()
    with whole_model(training):
        parameters_sha256 = check_equal_parameters(
            training.world, training.model, may_differ=is_bound(training.variant.options)
        )
    hosts = list(dict.fromkeys(training.world.gather(platform.node())))
    return training.world.gather(
        Rank(
            rank=training.world.rank,
            agent=agent,
            host=hosts.index(platform.node()),
            device=str(device),
            epochs=[timed_part(epoch) for epoch in (*trained.epochs, *trained.extra_epochs)],
            train_losses=[loss for epoch in trained.epochs for loss in epoch.train_losses],
            memory_peak_mib=memory_peak_mib,
            memory_reserved_peak_mib=torch.cuda.max_memory_reserved(device) / _MIB
            if device.type == "cuda"
            else None,
            parameters_sha256=parameters_sha256,
        )
    )


def of_all_ranks(trained: Trained, ranks: Sequence[Rank], *, divide_batch: bool) -> Trained:
    """Each epoch as the slowest rank timed it, with the samples and the mean losses of all.

    Ranks that do not divide a batch between them have gone through the same samples, and have the
    same losses.
    """
    slowest = [
        _slowest(epochs, divide_batch=divide_batch)
        for epochs in zip(*(rank.epochs for rank in ranks), strict=True)
    ]
    losses = iter(
        float32_values(map(fmean, zip(*(rank.train_losses for rank in ranks), strict=True)))
    )
    asked = len(trained.epochs)
    epochs = [
        epoch.model_copy(
            update={**dict(timed), "train_losses": [next(losses) for _ in epoch.train_losses]},
        )
        for epoch, timed in zip(trained.epochs, slowest[:asked], strict=True)
    ]
    return replace(trained, epochs=epochs, extra_epochs=slowest[asked:])


def _slowest(epochs: Sequence[TimedEpoch], *, divide_batch: bool) -> TimedEpoch:
    slowest = max(epochs, key=lambda epoch: epoch.wall_time_s)
    return (
        slowest.model_copy(update={"samples": sum(epoch.samples for epoch in epochs)})
        if divide_batch
        else slowest
    )
