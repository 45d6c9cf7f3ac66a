"""Ranks of a process group train as many steps as the first decides, and none waits without end."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from torch import distributed

from gpu_report.errors import ProfileError
from gpu_report.user_training import ranks
from gpu_report.user_training.ranks import Ranks


@pytest.fixture
def store() -> Any:
    return distributed.HashStore()  # type: ignore[attr-defined]


def both(store: Any, *, patience_s: float = 30.0) -> tuple[Ranks, Ranks]:
    first, second = (
        Ranks(rank=rank, size=2, patience_s=patience_s, _store=store) for rank in range(2)
    )
    return first, second


def test_all_ranks_take_what_the_first_has_found(store: Any) -> None:
    first, second = both(store)
    own = {first: [True, 7, False], second: [False, 3, True]}

    with ThreadPoolExecutor() as pool:
        taken = [*pool.map(lambda each: [each.decide(value) for value in own[each]], own)]

    assert taken == [[True, 7, False]] * 2


def test_a_first_rank_that_does_not_go_on_ends_the_others_with_a_line(store: Any) -> None:
    _, second = both(store, patience_s=0.05)

    with pytest.raises(ProfileError, match=r"^process group: rank 0 of 2 did not go on"):
        second.decide(True)


def test_an_error_of_one_rank_ends_the_others_with_its_words(store: Any) -> None:
    first, second = both(store)

    def fail() -> None:
        with second.ending_together():
            second.decide(1)
            raise ProfileError("loss: it was nan at step 3")

    with ThreadPoolExecutor() as pool:
        failing = pool.submit(fail)
        assert first.decide(1) == 1
        with pytest.raises(ProfileError, match=r"^process group: rank 1 of 2 failed: .*nan"):
            first.decide(2)

    assert isinstance(failing.exception(), ProfileError)


def test_a_rank_that_does_not_call_is_named(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(distributed.distributed_c10d, "_get_default_store", lambda: store)
    monkeypatch.setattr(ranks, "LEAST_PATIENCE_S", 0.05)

    with pytest.raises(ProfileError, match=r"^process group: rank 1 of 2 did not call this too"):
        Ranks.meet(patience_s=0.01)


def test_a_process_without_others_decides_alone() -> None:
    alone = Ranks.meet(patience_s=1.0)

    assert (alone.rank, alone.size) == (0, 1)
    assert alone.decide(5) == 5
