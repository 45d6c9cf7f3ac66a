"""A model in two halves, as its workload names them, which two devices share."""

from torch import Tensor, nn

from gpu_report.workloads.protocol import NamesHalves, TrainingWorkload, WorkloadError


class Halves(nn.Module):
    """Both halves as one model, on whatever devices; its output comes back to the device of its inputs."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, inputs: Tensor) -> Tensor:
        device = next(self.second.parameters()).device
        between = [part.to(device, non_blocking=True) for part in as_tuple(self.first(inputs))]
        output: Tensor = self.second(*between)
        return output.to(inputs.device, non_blocking=True)


def halves_of(workload: TrainingWorkload, model: nn.Module) -> Halves:
    """The model in the halves that its workload names.

    Raises:
        WorkloadError: it names none, or a parameter is in none or in both of them.
    """
    name = type(workload).__name__
    if not isinstance(workload, NamesHalves):
        raise WorkloadError(
            f"parallelism: {name} names no halves(model), so two devices cannot share its model; "
            "add it to the class, or leave split and pipeline out"
        )
    halves = Halves(*workload.halves(model))
    held = [id(each) for half in (halves.first, halves.second) for each in values_of(half)]
    if sorted(held) != sorted(map(id, values_of(model))):
        raise WorkloadError(
            f"parallelism: halves(model) of {name} must put each parameter and buffer of the model into exactly one "
            f"half; the model has {len(values_of(model))}, its halves have {len(held)}"
        )
    return halves


def values_of(model: nn.Module) -> list[Tensor]:
    """Its parameters and buffers."""
    return [*model.parameters(), *model.buffers()]


def as_tuple(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a half returned, which may be one tensor or several."""
    return (found,) if isinstance(found, Tensor) else tuple(found)
