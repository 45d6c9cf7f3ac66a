"""What a call has printed and returns: shown once, also by a notebook's cell that ends with it."""

import sys
from abc import abstractmethod
from dataclasses import dataclass, field

from gpu_report.printing.terminal import say


def notebook_cell() -> object:
    """The number of the notebook's cell that runs now; None outside of notebooks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell.execution_count if shell is not None else None


@dataclass(frozen=True, kw_only=True, repr=False)
class Card:
    """Made by a call that prints it; `shown_in` is the notebook's cell of that call."""

    shown_in: object = field(default_factory=notebook_cell, compare=False)

    @abstractmethod
    def summary(self) -> str:
        """The text that is printed."""

    def __repr__(self) -> str:
        return self.summary()

    def _ipython_display_(self) -> None:
        if notebook_cell() != self.shown_in:
            say(self.summary())
