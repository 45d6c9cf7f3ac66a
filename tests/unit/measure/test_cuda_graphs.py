"""Preparing a training changes nothing of it."""

import torch
from torch.optim import Adam

from gpu_report.measure.cuda_graphs import restored
from gpu_report.measure.training import Training, train_step
from tests.unit.measure.trainings import CPU, build, pictures


def addresses(training: Training) -> list[int]:
    state = [value for values in training.optimizer.state.values() for value in values.values()]
    return [
        tensor.data_ptr()
        for tensor in (*training.model.parameters(), *training.model.buffers(), *state)
    ]


def test_weights_buffers_optimizer_and_random_numbers_are_put_back_where_they_are() -> None:
    training = build(pictures())
    batch = next(iter(training.train_loader))
    train_step(training, batch)
    weights = [tensor.clone() for tensor in training.model.state_dict().values()]
    counts = [values["step"].clone() for values in training.optimizer.state.values()]
    where, random_state = addresses(training), torch.get_rng_state()

    with restored(training.model, training.optimizer, CPU):
        train_step(training, batch)
        torch.rand(3)

    assert all(map(torch.equal, weights, training.model.state_dict().values()))
    assert [values["step"] for values in training.optimizer.state.values()] == counts
    assert addresses(training) == where
    assert torch.equal(torch.get_rng_state(), random_state)


def test_state_that_an_optimizer_makes_meanwhile_is_as_good_as_none() -> None:
    prepared, plain = build(pictures()), build(pictures())
    assert isinstance(prepared.optimizer, Adam)
    batch = next(iter(plain.train_loader))

    with restored(prepared.model, prepared.optimizer, CPU):
        train_step(prepared, batch)

    assert torch.equal(train_step(prepared, batch), train_step(plain, batch))
    assert all(map(torch.equal, prepared.model.parameters(), plain.model.parameters()))
