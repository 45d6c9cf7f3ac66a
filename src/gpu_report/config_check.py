"""Checking a configuration against its JSON schema, with errors that name the key, the value and what is allowed."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from gpu_report.errors import ConfigError


def check_config(config: Mapping[str, Any]) -> None:
    """Compare a configuration with the schema.

    Raises:
        ConfigError: the first key, in file order, that is unknown, missing or has an impossible value.
    """
    problems = sorted(
        _validator().iter_errors(config), key=lambda problem: [str(part) for part in problem.absolute_path]
    )
    if problems:
        raise ConfigError(_describe(_most_specific(problems[0])))


@cache
def _validator() -> Any:
    import yaml
    from jsonschema import Draft202012Validator

    schema = yaml.safe_load(resources.files("gpu_report.schemas").joinpath("study.schema.yaml").read_text("utf-8"))
    return Draft202012Validator(schema)


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
