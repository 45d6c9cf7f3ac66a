"""The processes of a process group that measure the same step: the first decides, and all do alike.

Ranks.meet -> every rank is here -> decide: every rank is well, and what the first one found

A step of such a training has collectives, so that a rank that trains one step more than the others
waits for ever. What they decide goes through the store of the process group, not through a
collective, so that it mixes with none of the training's.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeVar

from torch import distributed

from gpu_report.errors import ProfileError
from gpu_report.user_training.workload import in_one_line

T = TypeVar("T", bool, int)

LEAST_PATIENCE_S: Final = 60.0
_CALLS: Final = count()
_FAILED: Final = "!"


def is_distributed() -> bool:
    """Whether this process is one of a process group."""
    return distributed.is_available() and distributed.is_initialized()


@dataclass(kw_only=True, eq=False)
class Ranks:
    """One of `size` processes that decide together; a process without others decides alone."""

    rank: int = 0
    size: int = 1
    patience_s: float = math.inf
    _store: Any = field(default=None, repr=False)
    _decisions: int = 0

    @classmethod
    def meet(cls, *, patience_s: float) -> "Ranks":
        """Wait until all ranks of the process group have called; alone where there is no group.

        Raises:
            ProfileError: a rank has not called in time.
        """
        size = distributed.get_world_size() if is_distributed() else 1
        if size == 1:
            return cls()
        store = distributed.distributed_c10d._get_default_store()
        ranks = cls(
            rank=distributed.get_rank(),
            size=size,
            patience_s=max(patience_s, LEAST_PATIENCE_S),
            _store=distributed.PrefixStore(f"gpu_report/{next(_CALLS)}", store),  # type: ignore[attr-defined]
        )
        ranks.decide(True, missed="call this too; every rank of a training must")
        return ranks

    def decide(self, found: T, *, missed: str = "go on") -> T:
        """What the first rank has found, once every rank is here; `missed` is what one that does
        not come did not do.

        Raises:
            ProfileError: a rank has failed, or is not here in time.
        """
        if self.size == 1:
            return found
        self._decisions += 1
        self._say(json.dumps(found))
        said = []
        for other in range(self.size):
            key = f"decision/{self._decisions}/{other}"
            try:
                self._store.wait([key], timedelta(seconds=self.patience_s))
            except RuntimeError as error:
                raise ProfileError(
                    f"process group: rank {other} of {self.size} did not {missed} "
                    f"(waited for {self.patience_s:g} s)"
                ) from error
            said.append(self._store.get(key).decode())
            if said[-1].startswith(_FAILED):
                raise ProfileError(
                    f"process group: rank {other} of {self.size} failed: "
                    f"{said[-1].removeprefix(_FAILED)}"
                )
        decided: T = json.loads(said[0])
        return decided

    @contextmanager
    def ending_together(self) -> Iterator[None]:
        """An error inside ends the other ranks at their next decision."""
        try:
            yield
        except BaseException as error:
            if self.size > 1:
                self._decisions += 1
                self._say(f"{_FAILED}{in_one_line(error)}")
            raise

    def _say(self, text: str) -> None:
        self._store.set(f"decision/{self._decisions}/{self.rank}", text)
