"""The two sets of results that config's `before_after` names, for a section of the report."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpu_report.bundles.results import files_at
from gpu_report.bundles.shown_machines import Shown
from gpu_report.errors import BundleError, ConfigError

KEY: Final = "before_after"
"""In the configuration."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Each is a bundle, or a folder of results; one of them may be the folder that this run
    measures into.
    """

    before: Path
    after: Path

    @property
    def by_name(self) -> dict[str, Path]:
        """`before`, then `after`."""
        return {"before": self.before, "after": self.after}


def choose_sides(config: Mapping[str, Any], shown: Shown) -> Sides | None:
    """The sides that a checked configuration names; None where it names none.

    For the folder of a machine that the report shows out of a bundle, this is the bundle.

    Raises:
        ConfigError: there are no results at a path, and this run measures none there.
    """
    if KEY not in config:
        return None
    known = {
        machine.results.resolve(): machine.bundle or machine.results for machine in shown.machines
    }
    sides = {
        name: known.get(Path(text).resolve(), Path(text)) for name, text in config[KEY].items()
    }
    for name, path in sides.items():
        if path in [machine.results for machine in shown.measured]:
            continue
        if not path.exists():
            raise ConfigError(
                f"{KEY}.{name}: there is no {path}; name a bundle, or a folder of results/machines"
            )
        try:
            files_at(path)
        except BundleError as error:
            raise ConfigError(f"{KEY}.{name}: {error}") from error
    return Sides(**sides)
