"""Configurations without a file: what a call or a command line gives, made into a study and checked
as one.

a workload's name and the keys of a row -> a configuration in memory -> load_study -> errors that
name what was given
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gpu_report.errors import ConfigError
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.study.config import check_config
from gpu_report.study.study import Study, load_study

_NAME: Final = "single"
_WHERE: Final = re.compile(rf"(?:experiments\.{_NAME}\.grid\[0\]|protocol|workloads\.\w+)(?:\.|: )")
_GIVEN_AS: Final = {
    "options": "optimization",
    "accumulation": "optimization",
    "strategy": "parallelism",
}
"""Fields of a variant by the key of a row that sets them; every other field is its own key."""


def single_study(
    workload: str,
    row: Mapping[str, Any],
    *,
    devices: Sequence[str],
    dataset: str | None = None,
    repetitions: int | None = None,
    base: Mapping[str, Any] | None = None,
    option: Callable[[str], str] = str,
) -> Study:
    """A study of one row.

    Args:
        workload: One of ours, or one of the base.
        row: As in the grid of an experiment; a value that is None was not given. The device is the
            fastest by default.
        devices: Those of this machine, the CPU first.
        dataset: One of those that the workload can train on.
        repetitions: Fresh processes.
        base: A study's configuration, whose workloads' settings, protocol and seed are taken.
        option: What the user calls a key, such as `--batch-size`.

    Raises:
        ConfigError: as load_study; where it is about what was given, it begins with what the user
            calls it.
    """
    if base is not None:
        check_config(base)
    base = base or {}
    workloads: dict[str, Any] = {**dict.fromkeys(BUILT_IN_WORKLOADS), **base.get("workloads", {})}
    if workload not in workloads:
        raise ConfigError(
            f"{option('workload')}: {workload!r} is unknown; use one of {', '.join(workloads)}"
        )
    settings = dict(workloads[workload] or {})
    if dataset is not None:
        allowed = () if "class" in settings else BUILT_IN_WORKLOADS[workload].datasets
        if dataset not in allowed:
            use = (
                f"use one of {', '.join(allowed)}"
                if allowed
                else "leave it out: its class brings the data"
            )
            raise ConfigError(f"{option('dataset')}: {workload} has no data set {dataset!r}; {use}")
        settings |= {"data": dataset} if len(allowed) > 1 else {}
    given = {key: value for key, value in row.items() if value is not None}
    protocol = {"repetitions": 5, "profile_steps": 3, **base.get("protocol", {})}
    config = {
        "name": _NAME,
        "title": f"{workload} alone",
        "devices": "auto",
        "seed": base.get("seed", 0),
        "protocol": protocol if repetitions is None else {**protocol, "repetitions": repetitions},
        "workloads": {workload: settings},
        "experiments": {
            _NAME: {
                "question": "How fast is it?",
                "axis": "workload",
                "baseline": workload,
                "grid": [{"workload": workload, "device": "fastest", **given}],
            }
        },
    }
    try:
        return load_study(config, devices=devices)
    except ConfigError as error:
        said = _WHERE.sub("", str(error), count=1)
        key, colon, rest = said.partition(":")
        key = _GIVEN_AS.get(key, key)
        raise ConfigError(
            f"{option(key)}:{rest}" if colon and key in {*row, "repetitions"} else str(error)
        ) from error
