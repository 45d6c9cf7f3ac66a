"""Batches of any nesting, and workloads of three members: they train as a pair of tensors and a
whole class do.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from gpu_report.measure.building import load_seeded
from gpu_report.measure.nested import Nested, mapped, tensors_of
from gpu_report.measure.operation_counts import count_work
from gpu_report.measure.training import evaluate, prepare
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.workloads.protocol import WorkloadError, with_defaults
from tests.unit.measure import short_workloads
from tests.unit.measure.short_workloads import ByStep, Encoding, InPairs, Short, points
from tests.unit.measure.trainings import build, losses, measurement

NESTED = pytest.mark.parametrize("nested", [ByStep, InPairs])


def measured(name: str, folder: Path, **fields: Any) -> Record:
    return measure_variant(
        measurement(f"{short_workloads.__name__}:{name}", workload="short", epochs=2, **fields),
        machine="here",
        trace_folder=folder / "trace",
        rich_trace_folder=folder / "rich_trace",
    )


class Two(NamedTuple):
    one: Tensor
    other: Tensor


@pytest.mark.parametrize(
    "parts",
    [
        torch.ones(2),
        [torch.ones(2), (torch.ones(2), torch.ones(3))],
        {"a": torch.ones(2), "b": [torch.ones(2)]},
        OrderedDict(a=torch.ones(2)),
        Encoding(a=torch.ones(2)),
        Two(torch.ones(2), torch.ones(2)),
    ],
)
def test_what_is_mapped_keeps_its_form_and_leaves_the_original_alone(parts: Any) -> None:
    doubled = mapped(lambda tensor: 2 * tensor, parts)

    assert type(doubled) is type(parts)
    assert [tensor.tolist() for tensor in tensors_of(doubled)] == [
        [2.0] * len(tensor) for tensor in tensors_of(parts)
    ]
    assert all((tensor == 1).all() for tensor in tensors_of(parts))


def test_parts_of_a_batch_are_joined_to_the_batch_again() -> None:
    batch = Nested({"a": torch.arange(10), "b": [torch.arange(20).reshape(10, 2)]})

    pieces = list(batch.tensor_split(3))

    assert [len(piece) for piece in pieces] == [4, 3, 3]
    joined = Nested.joined(pieces)
    assert all(map(torch.equal, tensors_of(joined.parts), tensors_of(batch.parts)))
    numbers = Nested.joined([Nested({"loss": torch.tensor(value)}) for value in (1.0, 2.0)])
    assert numbers.parts["loss"].tolist() == [1, 2]
    with pytest.raises(WorkloadError, match="output holds a PackedSequence at states"):
        Nested.joined([Nested({"states": pack_sequence([torch.ones(3, 1), torch.ones(2, 1)])})])


@NESTED
@pytest.mark.parametrize(
    "fields", [{}, {"accumulation": 2}, {"options": "resident"}, {"workers": 1}], ids=str
)
def test_a_nested_batch_trains_as_the_pair_of_tensors_does(
    nested: type, fields: dict[str, Any]
) -> None:
    expected = losses(build(with_defaults(Short())))

    assert losses(build(with_defaults(nested()), **fields)) == pytest.approx(expected, rel=1e-5)


@NESTED
def test_a_step_on_nested_batches_is_counted_and_prepared(nested: type) -> None:
    training, plain = build(with_defaults(nested())), build(with_defaults(Short()))
    assert prepare(training) == 0

    ours, theirs = count_work(training), count_work(plain)

    assert ours is not None
    assert theirs is not None
    assert ours.flops == theirs.flops


def test_a_step_of_its_own_is_evaluated_by_its_own_metric() -> None:
    training = build(with_defaults(ByStep()))

    loss, quality = evaluate(training)

    assert loss is not None
    assert quality is not None
    assert torch.tensor(loss).exp().item() == pytest.approx(quality, rel=1e-5)  # two equal batches


def test_outputs_of_several_tensors_reach_the_metric_whole() -> None:
    training = build(with_defaults(InPairs()))

    _, quality = evaluate(training)

    training.model.eval()
    inputs, target = points()
    scores = training.model([inputs[:8, :1], inputs[:8, 1:]])[0]
    assert quality == pytest.approx((scores.argmax(1) == target[:8]).float().mean().item())


def test_what_a_workload_draws_when_it_is_built_has_the_seed() -> None:
    drawing = measurement(f"{short_workloads.__name__}:DrawsWhenBuilt")

    once, again, other = (
        load_seeded(drawing, seed=seed).train_data().tensors[0]  # type: ignore[attr-defined]
        for seed in (1, 1, 2)
    )

    assert torch.equal(once, again)
    assert not torch.equal(once, other)


def test_three_members_are_a_workload_whose_record_invents_nothing(tmp_path: Path) -> None:
    record = measured("Short", tmp_path)

    assert record.status == "ok", record.reason
    facts = record.workload
    assert facts is not None
    assert (facts.title, facts.data_description) == ("Short", "Two overlapping clouds of points.")
    assert (facts.optimizer, facts.loss) == ("AdamW, learning rate 0.001", "Short.loss")
    assert facts.sample_description == "input 4 float32, target int64"
    assert (facts.test_samples, facts.quality_name, facts.quality_chance) == (0, "", None)
    assert {(epoch.test_loss, epoch.quality) for epoch in record.repetitions[0].epochs} == {
        (None, None)
    }
    RECORD_FILE.write(record, tmp_path / "record.json")
    assert RECORD_FILE.read(tmp_path / "record.json") == record


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_several_processes_train_by_a_step_of_its_own(strategy: str, tmp_path: Path) -> None:
    shared = measured("ByStep", tmp_path, strategy=strategy, devices=2, steps_per_epoch=4)

    assert shared.status == "ok", shared.reason
    expected = losses(build(with_defaults(ByStep()), steps_per_epoch=4))
    found = [loss for epoch in shared.repetitions[0].epochs for loss in epoch.train_losses]
    assert found == pytest.approx(expected, rel=1e-4)
    assert shared.workload is not None
    assert (shared.workload.quality_better, shared.workload.quality_chance) == ("lower", 2.0)
    assert shared.workload.sample_description.startswith(
        "points 4 float32, labels int64, halves.0 2 float32"
    )


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("WithoutSamples", r"train_data\(\) returned a list without samples"),
        ("WithoutHeldOutSamples", r"test_data\(\) returned a list without samples"),
        ("OfText", "holds a str at 0.text"),
        ("OfMappings", r"is a Encoding \(points 4 float32.*define training_step"),
        ("WithoutModel", r"build_model\(\) returned a function; it must be a torch.nn.Module"),
        ("LossOfEachSample", r"loss returned a tensor of shape \(4,\).*it must return a scalar"),
        ("LossAsNumber", r"loss returned \d\.\d+; it must return a scalar tensor"),
        ("StepOfNothing", "training_step returned None; it must return a scalar tensor"),
    ],
)
def test_a_workload_that_cannot_be_trained_is_named_in_one_line(name: str, named: str) -> None:
    workload = with_defaults(getattr(short_workloads, name)())

    with pytest.raises(WorkloadError, match=f"^{name}: .*{named}") as raised:
        losses(build(workload))

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"options": "channelslast"}, "channelslast is for .* images .* ByStep has points 4 float"),
        ({"strategy": "pipeline", "devices": 2}, "split and pipeline need samples of .* ByStep"),
        ({"options": "checkpoint"}, "ByStep names no checkpointed_blocks"),
    ],
)
def test_what_a_step_of_its_own_cannot_use_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(WorkloadError, match=named):
        build(with_defaults(ByStep()), **fields)
