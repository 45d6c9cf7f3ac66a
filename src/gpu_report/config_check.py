"""Checking a configuration against its JSON schema, with errors that name the key, the value and what is allowed."""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from gpu_report.errors import ConfigError


def check_config(config: Mapping[str, Any]) -> None:
    """Compare a configuration with the schema.

    Raises:
        ConfigError: one key that is unknown, missing or has an impossible value.
    """
    _check_keys(config, "")
    problems = sorted(
        _validator().iter_errors(config), key=lambda problem: [str(part) for part in problem.absolute_path]
    )
    if problems:
        raise ConfigError(_describe(_most_specific(problems[0])))


def _check_keys(value: Any, path: str) -> None:
    """YAML reads a bare number, date or `yes` as a key that is no text, which a JSON schema cannot speak of."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                where = f"{path}.{key}" if path else str(key)
                raise ConfigError(f"{where}: the key {key!r} is not text; put it in quotes or use another name")
            _check_keys(inner, f"{path}.{key}" if path else key)


@cache
def _validator() -> Any:
    import yaml
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    schema = yaml.safe_load(resources.files("gpu_report.schemas").joinpath("study.schema.yaml").read_text("utf-8"))
    strict = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_finite})
    return extend(Draft202012Validator, type_checker=strict)(schema)  # type: ignore[no-untyped-call]


def _is_whole(_: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(_: Any, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _most_specific(problem: Any) -> Any:
    while problem.context:
        problem = max(problem.context, key=lambda inner: len(inner.absolute_path))
    return problem


def _describe(problem: Any) -> str:
    path = _dotted(problem.absolute_path)
    if problem.validator == "additionalProperties":
        known = problem.schema.get("properties", {})
        unknown = next(key for key in problem.instance if key not in known)
        where = f"{path}.{unknown}" if path else str(unknown)
        return f"{where}: unknown key; allowed here: {', '.join(known)}"
    if problem.validator == "required":
        missing = next(key for key in problem.validator_value if key not in problem.instance)
        return f"{f'{path}.{missing}' if path else missing}: missing; add it (config/README.md describes every key)"
    return f"{path or 'the configuration'}: {problem.instance!r} is not allowed; {_allowed(problem)}"


def _allowed(problem: Any) -> str:
    value = problem.validator_value
    return {
        "enum": lambda: f"use one of: {', '.join(map(str, value))}",
        "minimum": lambda: f"use {value} or more",
        "maximum": lambda: f"use {value} or less",
        "exclusiveMinimum": lambda: f"use more than {value}",
        "type": lambda: f"use {' or '.join(value) if isinstance(value, list) else f'a value of type {value}'}",
        "minItems": lambda: f"give {value} or more entries",
        "minProperties": lambda: f"give {value} or more entries",
        "pattern": lambda: f"it must match {value}",
    }.get(problem.validator, lambda: str(problem.message))()


def _dotted(parts: Iterable[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
