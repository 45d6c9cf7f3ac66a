"""Which machine a report is about, and those it is compared with, each with its own study.

config's `machines` -> ShownMachine (id, folder of results, study, bundle); results are never mixed between machines
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpu_report.bundles.archive import read_manifest
from gpu_report.bundles.manifest import Manifest
from gpu_report.errors import ConfigError
from gpu_report.study.config import check_config
from gpu_report.study.machine import Machine, find_machine
from gpu_report.study.study import Study, load_study

MACHINES: Final = Path("results/machines")
"""Results that were measured, in a folder for each machine."""
IMPORTED: Final = Path("results/imported")
"""Results out of bundles; apart from what was measured, so that importing can never take its place."""
PUBLISHED: Final = Path("results/published")
BUNDLE_SUFFIX: Final = ".tar.xz"

_HERE: Final = "here"
_PUBLISHED: Final = "published"
_DEFAULT: Final = (_HERE, _PUBLISHED)


@dataclass(frozen=True, kw_only=True)
class ShownMachine:
    """One machine of the report; `bundle` is None for this one, which is measured where something is missing."""

    id: str
    study: Study
    bundle: Path | None

    @property
    def results(self) -> Path:
        """The folder of its records, tables and findings."""
        return (IMPORTED if self.bundle else MACHINES) / self.id


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The report is about the first machine and compares it with the others.

    `notes` say in a line each what a person should know before it begins.
    """

    machines: tuple[ShownMachine, ...]
    notes: tuple[str, ...]

    @property
    def here(self) -> ShownMachine | None:
        """This machine, if the report shows it."""
        return next((machine for machine in self.machines if machine.bundle is None), None)


def choose_machines(
    config: Mapping[str, Any], *, published: Path = PUBLISHED, find_here: Callable[[], Machine] = find_machine
) -> Shown:
    """The machines that the configuration asks for, each with the study expanded for its devices.

    PyTorch is asked for devices only where this machine is shown. A bundle of this machine is left out
    beside it, and so is a bundle without a variant of the study.

    Raises:
        ConfigError: the configuration is wrong, a machine is not known, or none is left to show.
        BundleError: a bundle's manifest cannot be trusted.
        MachineError: PyTorch could not be asked.
    """
    check_config(config)
    configured = config.get("machines", _DEFAULT)
    # A damaged bundle must not keep this machine from being measured when nothing else is to be shown.
    bundles = {} if set(configured) == {_HERE} else find_bundles(published)
    chosen = _names(configured, bundles, find_here)
    notes = []
    machines = []
    if _HERE in chosen:
        here = find_here()
        study = load_study(config, devices=here.devices)
        machines.append(ShownMachine(id=here.id, study=study, bundle=None))
        notes += study.foreign_code
        if here.id in chosen:
            notes.append(f"{here.id} is this machine: shown as measured here, without {bundles[here.id].path}")
    for name in chosen:
        if name == _HERE or name in [machine.id for machine in machines]:
            continue
        study = study_of(config, bundles[name].manifest)
        if study.variants:
            machines.append(ShownMachine(id=name, study=study, bundle=bundles[name].path))
        else:
            notes.append(f"{name} is left out: {bundles[name].path} holds no variant of the study {config['name']}")
    if not machines:
        raise ConfigError(f"machines: no machine is left to show; {'; '.join(notes) or _known(bundles)}")
    return Shown(machines=tuple(machines), notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class PublishedBundle:
    """A bundle in the folder of published ones."""

    path: Path
    manifest: Manifest


def find_bundles(published: Path = PUBLISHED) -> dict[str, PublishedBundle]:
    """Every bundle by the id of its machine, in the order of the ids.

    Raises:
        BundleError: a bundle's manifest cannot be trusted.
        ConfigError: two bundles are of the same machine, or one lacks what a report needs.
    """
    found: dict[str, PublishedBundle] = {}
    for path in sorted(published.glob(f"*{BUNDLE_SUFFIX}")):
        bundle = PublishedBundle(path=path, manifest=read_manifest(path))
        machine = bundle.manifest.machine
        if machine in found:
            raise ConfigError(f"{found[machine].path} and {path} are both of {machine}; remove one of them")
        if not bundle.manifest.has_calibration:
            raise ConfigError(f"{path} holds no calibration, so it cannot be published; pack it again without --traces")
        found[machine] = bundle
    return dict(sorted(found.items()))


def study_of(config: Mapping[str, Any], manifest: Manifest) -> Study:
    """The study as the machine of a bundle measured it: the variants and searches that are in both."""
    held = {*manifest.variants, *manifest.searches}
    return load_study(config, devices=manifest.devices, elsewhere=True).restricted_to(held)


def _names(
    configured: Sequence[str], bundles: Mapping[str, PublishedBundle], find_here: Callable[[], Machine]
) -> list[str]:
    """`here` and ids of bundles, each once, in the order of the configuration."""
    names: list[str] = []
    for name in configured:
        if name == _PUBLISHED:
            names += bundles
        elif name == _HERE or name in bundles:
            names.append(name)
        elif name == find_here().id:
            names.append(_HERE)
        else:
            raise ConfigError(f"machines: {name!r} is not known; {_known(bundles)}")
    return list(dict.fromkeys(names))


def _known(bundles: Mapping[str, PublishedBundle]) -> str:
    ids = ", ".join(bundles) or f"none yet; bundles are in {PUBLISHED}"
    return f"use here, published, or the id of a bundle: {ids}"
