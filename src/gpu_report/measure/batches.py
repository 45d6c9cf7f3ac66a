"""How batches reach the device: from a DataLoader, prefetched on a side stream, or selected in the
device's memory.

build_batches -> Batches, iterated once per epoch; the sampler alone decides which samples, in which
order
"""

import math
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast

import torch
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

from gpu_report.measure.children import end_with_parent
from gpu_report.measure.nested import Collate, Part, joined
from gpu_report.measure.run import BATCHES_PER_WORKER
from gpu_report.measure.world import ALONE, World
from gpu_report.study.options import option_names
from gpu_report.study.variant import Variant

Batch = list[Part]
"""Inputs and targets, on the host or on the device already."""

Samples = Dataset[Any]

_STACKED_AT_ONCE: Final = 256


class ShuffledSampler(Sampler[int]):
    """Indices of shuffled samples, `samples_per_epoch` each time it is iterated.

    All samples come once in a random order, then all in another; an epoch goes on where the last
    one ended, so that epochs shorter than the data set still see all of it in the end. Each of n
    processes takes every n-th index of one order, as DistributedSampler does, so that together they
    go through the batches of a single process.
    """

    def __init__(
        self, *, samples: int, samples_per_epoch: int, seed: int, world: World = ALONE
    ) -> None:
        self.samples_per_epoch, self._world = samples_per_epoch, world
        self._indices = self._shuffled(samples, torch.Generator().manual_seed(seed))

    def __iter__(self) -> Iterator[int]:
        return islice(
            islice(self._indices, self.samples_per_epoch), self._world.rank, None, self._world.size
        )

    def __len__(self) -> int:
        return self.samples_per_epoch // self._world.size

    @staticmethod
    def _shuffled(samples: int, generator: torch.Generator) -> Iterator[int]:
        while True:
            yield from torch.randperm(samples, generator=generator).tolist()


class PrefetchedBatches:
    """Copies the next batch to the device, on a stream of its own, before the current one is handed
    out.
    """

    def __init__(self, loader: "DataLoader[Any]", device: torch.device) -> None:
        self._loader, self._device = loader, device
        self._stream = torch.Stream(device)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        loaded = iter(self._loader)
        upcoming = self._copied(next(loaded, None))
        while upcoming is not None:
            computing = torch.accelerator.current_stream(self._device)
            computing.wait_stream(self._stream)
            for part in upcoming:
                # Its memory belongs to the copying stream, which must not reuse it while it is
                # being computed on.
                part.record_stream(computing)
            current, upcoming = upcoming, self._copied(next(loaded, None))
            yield current

    def _copied(self, batch: Batch | None) -> Batch | None:
        if batch is None:
            return None
        with self._stream:
            return [part.to(self._device, non_blocking=True) for part in batch]


class ResidentBatches:
    """Selects batches from a training set in the device's memory; the host sends an epoch's indices
    once.

    Samples are taken as they are when the set is stacked: what a data set draws at random is drawn
    once.
    """

    def __init__(
        self,
        data: Samples,
        sampler: ShuffledSampler,
        *,
        batch_size: int,
        device: torch.device,
        layout: torch.memory_format,
        collate: Collate | None = None,
    ) -> None:
        self._sampler, self._batch_size, self._device = sampler, batch_size, device
        inputs, targets = zip(
            *DataLoader(
                data, batch_size=_STACKED_AT_ONCE, collate_fn=collate, generator=torch.Generator()
            ),
            strict=True,
        )
        # In their layout before they are sent: two copies on the device would count as the
        # training's memory.
        self._inputs = joined(inputs).contiguous(memory_format=layout).to(device)
        self._targets = joined(targets).to(device)

    def __len__(self) -> int:
        return math.ceil(len(self._sampler) / self._batch_size)

    def __iter__(self) -> Iterator[Batch]:
        order = torch.tensor(list(self._sampler)).to(self._device)
        for indices in torch.split(order, self._batch_size):
            yield [_picked(self._inputs, indices), self._targets.index_select(0, indices)]


def _picked(samples: Any, indices: torch.Tensor) -> Part:
    """Samples in their own layout; selecting alone would put the channels of images first again."""
    if samples.dim() != 4 or samples.is_contiguous():
        return cast("Part", samples.index_select(0, indices))
    return cast("Part", samples.movedim(1, -1).index_select(0, indices).movedim(-1, 1))


Batches = DataLoader[Any] | PrefetchedBatches | ResidentBatches | list[Batch]
"""An epoch's batches, another epoch's each time it is iterated; its length is the number of
batches.
"""


def build_batches(
    data: Samples,
    sampler: ShuffledSampler,
    variant: Variant,
    *,
    batch_size: int,
    device: torch.device,
    layout: torch.memory_format,
    seed: int,
    collate: Collate | None = None,
) -> Batches:
    """This process's batches as the variant's options ask for them; equal ones in every way of
    getting them.
    """
    options = option_names(variant.options)
    if "resident" in options:
        return ResidentBatches(
            data, sampler, batch_size=batch_size, device=device, layout=layout, collate=collate
        )
    # DataLoader workers are forked where that is safe, whatever started this process.
    worker_start = "fork" if sys.platform == "linux" else "spawn"
    loader = DataLoader(
        data,
        batch_size=batch_size,
        sampler=sampler,
        collate_fn=collate,
        num_workers=variant.workers,
        prefetch_factor=BATCHES_PER_WORKER if variant.workers else None,
        multiprocessing_context=worker_start if variant.workers else None,
        # Starting processes anew for every epoch would be timed as if it were loading.
        persistent_workers=variant.workers > 0,
        pin_memory=is_pinned(variant),
        generator=torch.Generator().manual_seed(seed),
        worker_init_fn=end_with_parent,
    )
    return PrefetchedBatches(loader, device) if "prefetch" in options else loader


def is_pinned(variant: Variant) -> bool:
    """Whether batches come in page-locked memory, which alone can be copied while something else
    runs.
    """
    return not {"pinned", "prefetch"}.isdisjoint(option_names(variant.options))


def example_batch(data: Samples, samples: int, collate: Collate | None = None) -> Batch:
    """A batch of the first samples, for what needs its shape; starts over where the set holds
    fewer.
    """
    count = len(data)  # type: ignore[arg-type]
    collated: Batch = (collate or default_collate)(
        [data[index % count] for index in range(samples)]
    )
    return collated
