"""Batches of any nesting of tensors, which the training loop handles as it handles a pair of
tensors.

A data set whose batches are two tensors is left as it is: `collation` gives None, and the
DataLoader does what it does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from gpu_report.workloads.protocol import StepsItself, TrainingWorkload, WorkloadError

Collate = Callable[[list[Any]], Any]
"""Makes a batch of samples."""


def _on_each(method: str) -> Callable[..., "Nested"]:
    def call(self: "Nested", *arguments: Any, **options: Any) -> "Nested":
        return self.like(
            mapped(lambda tensor: getattr(tensor, method)(*arguments, **options), self.parts)
        )

    return call


class Nested:
    """Tensors in lists, tuples and mappings, with what the loop asks of one tensor; their first
    dimension is samples.

    Another memory format than the contiguous one is refused before: see `building.check_images`.
    """

    to, contiguous, clone, cpu, pin_memory, record_stream, index_select = map(
        _on_each,
        ("to", "contiguous", "clone", "cpu", "pin_memory", "record_stream", "index_select"),
    )

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    def like(self, parts: Any) -> "Nested":
        """Other parts of the same kind."""
        return Nested(parts)

    def __len__(self) -> int:
        return len(next(tensors_of(self.parts)))

    def dim(self) -> int:
        """Of no image."""
        return 0

    @property
    def shape(self) -> tuple[torch.Size, ...]:
        return tuple(tensor.shape for tensor in tensors_of(self.parts))

    def copy_(self, other: "Nested") -> None:
        for own, theirs in zip(tensors_of(self.parts), tensors_of(other.parts), strict=True):
            own.copy_(theirs)

    def tensor_split(self, count: int) -> Iterable["Nested"]:
        pieces = zip(
            *(tensor.tensor_split(count) for tensor in tensors_of(self.parts)), strict=True
        )
        return [self._with(piece) for piece in pieces] or [self] * count

    @staticmethod
    def joined(batches: "list[Nested] | tuple[Nested, ...]") -> "Nested":
        """Batches of one form, one behind the other; of numbers, one for each batch.

        Raises:
            WorkloadError: they hold something else than tensors.
        """
        for keys, part in leaves(batches[0].parts):
            if part is not None and not isinstance(part, Tensor):
                raise WorkloadError(
                    f"quality: the model's output holds a {type(part).__name__} at "
                    f"{'.'.join(keys) or 'its top'}; "
                    "return tensors, alone or in lists, tuples and mappings"
                )
        alike = zip(*(tensors_of(batch.parts) for batch in batches), strict=True)
        return batches[0]._with(map(_one_behind_the_other, alike))

    def _with(self, tensors: Any) -> "Nested":
        others = iter(tensors)
        return Nested(mapped(lambda _: next(others), self.parts))


Part = Any
"""The inputs of a batch, or its targets: a tensor or a Nested, which are alike to the loop."""


def wrapped(parts: Any) -> Part:
    """What the loop can handle."""
    return parts if isinstance(parts, Tensor) else Nested(parts)


def unwrapped(part: Part) -> Any:
    """What the workload knows."""
    return part.parts if isinstance(part, Nested) else part


def joined(batches: list[Any] | tuple[Any, ...]) -> Any:
    """Batches of one form, one behind the other; of numbers, one for each batch."""
    return (
        _one_behind_the_other(batches) if isinstance(batches[0], Tensor) else Nested.joined(batches)
    )


def _one_behind_the_other(tensors: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return torch.cat(tensors) if tensors[0].dim() else torch.stack(tensors)


def mapped(
    function: Callable[[Tensor], Any],
    parts: Any,
    *,
    others: Callable[[Any], Any] = lambda part: part,
) -> Any:
    """The same nesting with each of its tensors replaced; a mapping that a dict does not build
    becomes a dict.

    `others` replaces what is neither a tensor nor a nesting, such as a packed sequence.
    """
    if isinstance(parts, Tensor):
        return function(parts)
    if not _is_nesting(parts):
        return others(parts)
    if isinstance(parts, Mapping):
        found = {name: mapped(function, part, others=others) for name, part in parts.items()}
        try:
            return type(parts)(found)  # type: ignore[call-arg]
        except TypeError:
            return found
    values = [mapped(function, part, others=others) for part in parts]
    return type(parts)(*values) if hasattr(parts, "_fields") else type(parts)(values)


def in_fp32(output: Any) -> Any:
    """A tensor in single precision; of several, those that hold fractions."""
    if isinstance(output, Tensor):
        return output.float()
    return mapped(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor, output)


def tensors_of(parts: Any) -> Iterator[Tensor]:
    """Every tensor of a nesting, in the order of `mapped`."""
    return (part for _, part in leaves(parts) if isinstance(part, Tensor))


def leaves(parts: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is no nesting, with the keys that lead to it."""
    if not _is_nesting(parts):
        yield (), parts
        return
    for key, part in parts.items() if isinstance(parts, Mapping) else enumerate(parts):
        for keys, leaf in leaves(part):
            yield (str(key), *keys), leaf


def _is_nesting(parts: Any) -> bool:
    """A list, tuple or mapping; but a packed sequence is a tuple that moves as a whole."""
    return isinstance(parts, Mapping) or (
        isinstance(parts, list | tuple) and not hasattr(parts, "to")
    )


def sample_in_words(data: "Dataset[Any]") -> str:
    """Shapes and types of the first sample: `input 3x32x32 float32, target int64`."""
    batch = _first_alone(data)
    roles = {"0": "input", "1": "target"} if _is_pair(batch) else {}
    found = []
    for keys, tensor in leaves(batch):
        name = ".".join([*(roles.get(key, key) for key in keys[:1]), *keys[1:]])
        words = (
            name,
            "x".join(map(str, tensor.shape[1:])),
            str(tensor.dtype).removeprefix("torch."),
        )
        found.append(" ".join(filter(None, words)))
    return ", ".join(found)


def _first_alone(data: "Dataset[Any]") -> Any:
    """A batch of the first sample; the training's random numbers stay as they were."""
    with torch.random.fork_rng(devices=[]):
        return default_collate([data[0]])


def _is_pair(batch: Any) -> bool:
    """Whether a batch is of inputs and targets."""
    return isinstance(batch, list | tuple) and len(batch) == len(("inputs", "targets"))


def collation(workload: TrainingWorkload, data: "Dataset[Any]") -> Collate | None:
    """How samples become a batch of two parts; None where the DataLoader makes two tensors of them
    by itself.

    Raises:
        WorkloadError: a batch is not what the workload can train on.
    """
    name = type(workload).__name__
    batch = _first_alone(data)
    for keys, part in leaves(batch):
        if not isinstance(part, Tensor):
            raise WorkloadError(
                f"{name}: a sample of train_data holds a {type(part).__name__} at "
                f"{'.'.join(keys)}; leave out what is "
                "no tensor and no number"
            )
    if isinstance(workload, StepsItself):
        return partial(_collated, is_whole=True)
    if not _is_pair(batch):
        raise WorkloadError(
            f"{name}: loss(output, target) needs samples of (input, target); a sample of "
            f"train_data is a {type(batch).__name__} ({sample_in_words(data)}); define "
            "training_step(model, batch) instead of loss"
        )
    return (
        None
        if all(isinstance(part, Tensor) for part in batch)
        else partial(_collated, is_whole=False)
    )


def _collated(samples: list[Any], *, is_whole: bool) -> list[Part]:
    """Inputs and targets; a workload with steps of its own gets the whole batch as its inputs."""
    batch = default_collate(samples)
    return [wrapped(part) for part in ((batch, ()) if is_whole else batch)]
