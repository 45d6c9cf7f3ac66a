"""When a process has warmed up and timed enough, told from the wall times of its epochs."""

import pytest

from gpu_report.measure.settling import is_enough, warm_up
from gpu_report.study import Protocol

PROTOCOL = Protocol(repetitions=5, profile_steps=3, timed_epochs=4, timed_seconds=3.0)


@pytest.mark.parametrize(
    ("times_s", "warm_up_epochs"),
    [
        ([1.2, 1.0, 1.0, 1.0, 1.0], 1),
        # Compiling and tuning reach into the second and third epoch.
        ([30.0, 1.85, 0.82, 0.49, 0.52, 0.5, 0.51], 3),
        ([6.0, 4.14, 1.14, 1.22, 1.18, 1.16], 2),
        # One slow epoch in the middle is the host's, and stays.
        ([1.2, 1.0, 1.0, 3.0, 1.0, 1.0], 1),
    ],
)
def test_warm_up_ends_with_the_last_of_the_first_epochs_that_take_much_longer(
    times_s: list[float], warm_up_epochs: int
) -> None:
    found = warm_up(times_s, PROTOCOL)
    assert found.settled
    assert found.warm_up_epochs == warm_up_epochs


def test_a_process_whose_epochs_keep_getting_faster_is_not_settled_and_ends() -> None:
    times_s = [2.0**-number for number in range(40)]
    trained = next(length for length in range(1, 41) if is_enough(times_s[:length], PROTOCOL))
    found = warm_up(times_s[:trained], PROTOCOL)
    assert not found.settled
    assert found.warm_up_epochs == PROTOCOL.most_warm_up_epochs
    assert trained == PROTOCOL.most_warm_up_epochs + 4


@pytest.mark.parametrize(("epoch_s", "timed"), [(10.0, 4), (0.5, 6), (0.001, PROTOCOL.most_timed_epochs)])
def test_a_process_times_the_epochs_and_the_seconds_of_the_protocol(epoch_s: float, timed: int) -> None:
    trained = next(length for length in range(1, 100) if is_enough([epoch_s] * length, PROTOCOL))
    assert trained == 1 + timed


def test_a_single_timed_epoch_has_nothing_to_be_compared_with() -> None:
    asked = Protocol(repetitions=3, profile_steps=1, timed_epochs=1, timed_seconds=0.0)
    assert is_enough([5.0, 1.0], asked)
    assert warm_up([5.0, 1.0], asked).settled
