"""Which machine a report is about, and those it is compared with, each with its own study.

config's `machines` -> ShownMachine (id, folder of results, study, bundle); results are never mixed
between machines
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpu_report.bundles.manifest import Manifest
from gpu_report.bundles.unpacking import read_manifest
from gpu_report.errors import ConfigError
from gpu_report.study.cluster import REQUESTS, Request, known_machine, read_requests
from gpu_report.study.config import check_config
from gpu_report.study.machine import DESCRIPTIONS, Machine, cpu_has_bf16, find_machine
from gpu_report.study.study import Study, load_study
from gpu_report.study.variant import Variant

MACHINES: Final = DESCRIPTIONS
"""Results that were measured, in a folder for each machine."""
IMPORTED: Final = Path("results/imported")
"""Results out of bundles; apart from what was measured, so that importing can never take
its place.
"""
PUBLISHED: Final = Path("results/published")
"""Bundles of machines. Those of a study that has a folder of its name in it are there: two studies
of one machine need two bundles.
"""
BUNDLE_SUFFIX: Final = ".tar.xz"

_HERE: Final = "here"
_PUBLISHED: Final = "published"


@dataclass(frozen=True, kw_only=True)
class ShownMachine:
    """One machine of the report; `bundle` is None where it is measured, here or by jobs that ask
    for it so.
    """

    id: str
    study: Study
    bundle: Path | None
    request: Request | None = None

    @property
    def results(self) -> Path:
        """The folder of its records, tables and findings."""
        return (IMPORTED if self.bundle else MACHINES) / self.id


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The report is about the first machine and compares it with the others.

    `notes` say in a line each what a person should know before it begins. Where there are `unknown`
    ones, of which no job has found out what they are, these come first and there are no others.
    """

    machines: tuple[ShownMachine, ...]
    notes: tuple[str, ...]
    unknown: Mapping[str, Request] = field(default_factory=dict)

    @property
    def measured(self) -> tuple[ShownMachine, ...]:
        """Those that are measured where something is missing: this one, or those of a cluster."""
        return tuple(machine for machine in self.machines if machine.bundle is None)


def choose_machines(
    config: Mapping[str, Any],
    *,
    published: Path = PUBLISHED,
    requests: Mapping[str, Request] | None = None,
    find_here: Callable[[], Machine] = find_machine,
) -> Shown:
    """The machines that the configuration asks for, each with the study expanded for its devices.

    PyTorch is asked for devices only where this machine is shown. A bundle of a machine that is
    measured is left out beside it, and so is a bundle without a variant of the study. `requests`
    are those of REQUESTS unless given.

    Raises:
        ConfigError: the configuration is wrong, a machine is not known, or none is left to show; or
            two names are of one machine, or this one is to be measured beside those of a cluster.
        BundleError: a bundle's manifest cannot be trusted.
        MachineError: PyTorch could not be asked.
    """
    check_config(config)
    configured = config.get("machines", (_HERE, _PUBLISHED))
    requests = read_requests() if requests is None else requests
    # A damaged bundle must not keep a machine from being measured when nothing else is to be shown.
    is_alone = {*configured} <= {_HERE, *requests}
    bundles = {} if is_alone else find_bundles(published_for(config["name"], published))
    chosen = _names(configured, bundles, requests, find_here)
    of_cluster = {name: requests[name] for name in chosen if name in requests}
    if of_cluster and _HERE in chosen:
        raise ConfigError(
            "machines: here is not measured beside machines of a cluster; remove here, or "
            f"{[*of_cluster]}"
        )
    if of_cluster and config.get("minutes") is not None:
        raise ConfigError(
            f"minutes: a time budget is for this machine, not for {[*of_cluster]}, whose jobs run "
            "beside each other; remove it"
        )
    known = {name: known_machine(name, request) for name, request in of_cluster.items()}
    if unknown := {name: requests[name] for name, machine in known.items() if machine is None}:
        return Shown(machines=(), notes=(), unknown=unknown)
    notes: list[str] = []
    machines: list[ShownMachine] = []
    for name in (each for each in chosen if each not in bundles):
        machine = known.get(name) or find_here()
        if machine.id in [other.id for other in machines]:
            raise ConfigError(
                f"machines: {name} is {machine.id} as another one is; name one of them"
            )
        request = requests.get(name)
        study = load_study(
            config,
            devices=machine.devices,
            nodes=request.nodes if request else 1,
            has_bf16=request is not None or cpu_has_bf16(),
        )
        # Jobs of a cluster may run on several nodes, which have no sessions in common.
        asked = replace(study, sentinels=()) if request else study
        machines.append(ShownMachine(id=machine.id, study=asked, bundle=None, request=request))
        notes += [note for note in study.foreign_code if note not in notes]
        if machine.id in chosen:
            notes.append(f"{machine.id} is measured: shown without {bundles[machine.id][0]}")
    for name in chosen:
        if name not in bundles or name in [machine.id for machine in machines]:
            continue
        bundle, manifest = bundles[name]
        study = study_of(config, manifest)
        if study.variants:
            machines.append(ShownMachine(id=name, study=study, bundle=bundle))
            if manifest.study != config["name"]:
                notes.append(
                    f"{bundle} was packed for the study {manifest.study}: {len(study.variants)} of "
                    f"its {manifest.records} configurations are in the study {config['name']}"
                )
        else:
            notes.append(
                f"{name} is left out: {bundle} holds no configuration of the study {config['name']}"
            )
    slugs = [{variant.slug for variant in machine.study.variants} for machine in machines]
    notes += [
        f"{other.id} is compared with nothing: it has no configuration in common with "
        f"{machines[0].id}"
        for other, of_other in zip(machines[1:], slugs[1:], strict=True)
        if other.id in configured and not slugs[0] & of_other
    ]
    if not machines:
        raise ConfigError(
            f"machines: no machine is left to show; {'; '.join(notes) or _known(bundles)}"
        )
    return Shown(machines=tuple(machines), notes=tuple(notes))


def published_for(study: str, published: Path = PUBLISHED) -> Path:
    """Where the published bundles are that a study of this name is compared with."""
    return own if (own := published / study).is_dir() else published


def find_bundles(published: Path = PUBLISHED) -> dict[str, tuple[Path, Manifest]]:
    """Every bundle by the id of its machine, in the order of the ids, with its manifest.

    Raises:
        BundleError: a bundle's manifest cannot be trusted.
        ConfigError: two bundles are of the same machine, or one lacks what a report needs.
    """
    found: dict[str, tuple[Path, Manifest]] = {}
    for path in sorted(published.glob(f"*{BUNDLE_SUFFIX}")):
        manifest = read_manifest(path)
        machine = manifest.machine
        if machine in found:
            raise ConfigError(
                f"{found[machine][0]} and {path} are both of {machine}; remove one of them"
            )
        if not manifest.has_calibration:
            raise ConfigError(
                f"{path} holds no calibration, so it cannot be published; pack it again without "
                "--traces"
            )
        found[machine] = path, manifest
    return dict(sorted(found.items()))


def study_of(config: Mapping[str, Any], manifest: Manifest) -> Study:
    """The study as the machine of a bundle measured it: the variants and searches that are
    in both.
    """
    held = {*manifest.variants, *manifest.searches}
    most = max((Variant.from_slug(slug).devices for slug in manifest.variants), default=1)
    nodes = math.ceil(most / max(len(manifest.devices) - 1, 1))  # its devices are those of one
    return load_study(config, devices=manifest.devices, nodes=nodes, elsewhere=True).restricted_to(
        held
    )


def _names(
    configured: Sequence[str],
    bundles: Mapping[str, object],
    requests: Mapping[str, Request],
    find_here: Callable[[], Machine],
) -> list[str]:
    """`here`, names of a cluster's machines and ids of bundles, each once, in the order of the
    configuration.
    """
    names: list[str] = []
    for name in configured:
        if name == _PUBLISHED:
            names += bundles
        elif name == _HERE or name in requests or name in bundles:
            names.append(name)
        elif name == find_here().id:
            names.append(_HERE)
        else:
            raise ConfigError(f"machines: {name!r} is not known; {_known({**requests, **bundles})}")
    return list(dict.fromkeys(names))


def _known(names: Iterable[str]) -> str:
    ids = ", ".join(names) or f"none yet; bundles are in {PUBLISHED} or a study's folder in it"
    return f"use here, published, a name in {REQUESTS}, or the id of a bundle: {ids}"
