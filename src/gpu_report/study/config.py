"""A configuration file, read as Snakemake does and checked against its JSON schema.

Errors name the key, its value and what is allowed.
"""

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_report.errors import ConfigError
from gpu_report.printing.terminal import shortened

if TYPE_CHECKING:
    import yaml

DEFAULT_CONFIGFILE: Final = Path("config/study.yaml")
_MOST_VALUES: Final = 100_000
"""A hundred times those of the default study; aliases of aliases could expand to more than any
memory holds.
"""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_config(path: Path, *, example: str = "config/study.yaml") -> dict[str, Any]:
    """The configuration as plain values, not yet checked; `example` is where one begins who has
    none.

    Raises:
        ConfigError: the file is missing, is not YAML with keys at its top, or has a key twice, of
            which YAML's readers take the last.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(path.read_text("utf-8"))
        root = loader.get_single_node()
        # Before the values are made: making them merges the merge keys into their mappings.
        if root is not None and _checked_size(root, path, {}) > _MOST_VALUES:
            raise ConfigError(
                f"{path} has more than {_MOST_VALUES} values, each alias (*) counted as what it "
                "names; use fewer"
            )
        values = None if root is None else loader.construct_document(root)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; name a configuration with --configfile, or "
            "make a study with: gpu-report new-study FOLDER"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deep to be read; write it flatter") from error
    except (
        yaml.YAMLError,
        ValueError,
        KeyError,
        AttributeError,
        OverflowError,
    ) as error:  # of a date that is none
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} has no keys; begin from {example}")
    return values


def _checked_size(node: "yaml.Node", path: Path, known: dict[int, int]) -> int:
    """How many values a node has, each alias counted as what it names; `known` has the count of
    each node so far.

    Raises:
        ConfigError: a mapping has a key twice; a merge key (`<<`) may be repeated.
    """
    import yaml

    if id(node) in known:
        return known[id(node)]
    inner = node.value if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        names = set()
        for key, value in node.value:
            inner += [key, value]
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in names:
                    raise ConfigError(
                        f"{path}, line {key.start_mark.line + 1}: the key {key.value} is there "
                        "twice; remove one"
                    )
                names.add((key.tag, key.value))
    known[id(node)] = 1 + sum(_checked_size(each, path, known) for each in inner)
    return known[id(node)]


def check_config(config: Mapping[str, Any]) -> None:
    """Compare a configuration with the schema.

    Raises:
        ConfigError: one key that is unknown, missing or has an impossible value.
    """
    try:
        _check_values(config, ())
    except RecursionError as error:
        raise ConfigError(
            "the configuration is nested too deep to be read; write it flatter"
        ) from error
    problem = min(
        _validator().iter_errors(config),
        key=lambda problem: [str(part) for part in problem.absolute_path],
        default=None,
    )
    if problem is not None:
        while problem.context:  # of the alternatives, the one that fits deepest
            problem = max(problem.context, key=lambda inner: len(inner.absolute_path))
        raise ConfigError(_describe(problem))


def _check_values(value: Any, path: tuple[str | int, ...]) -> None:
    """What a JSON schema cannot say: YAML reads a bare number or date as a key, and numbers of any
    length.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(
                    f"{_dotted((*path, str(key)))}: the key {shortened(key)} is not text; put it "
                    "in quotes or use another name"
                )
            _check_values(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            _check_values(inner, (*path, position))
    elif isinstance(value, str) and (found := _CONTROL.search(value)):
        raise ConfigError(
            f"{_dotted(path)}: it holds the control character {found[0]!r}; remove it"
        )
    elif isinstance(value, int) and abs(value) >= 10**15:
        raise ConfigError(f"{_dotted(path)}: it has more than 15 digits; use a smaller number")


@cache
def _validator() -> Any:
    import yaml
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    schema = yaml.safe_load(
        resources.files("gpu_report.study").joinpath("study.schema.yaml").read_text("utf-8")
    )
    strict = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and math.isfinite(value)
            ),
        }
    )
    match = Draft202012Validator.VALIDATORS["pattern"]
    # In Python, `$` also matches before a final newline, which no name may have.
    whole = {"pattern": lambda validator, pattern, *rest: match(validator, rf"{pattern}\Z", *rest)}
    return extend(Draft202012Validator, whole, type_checker=strict)(schema)  # type: ignore[no-untyped-call]


def _describe(problem: Any) -> str:
    path = _dotted(problem.absolute_path)
    if problem.validator == "additionalProperties":
        known = problem.schema.get("properties", {})
        unknown = next(key for key in problem.instance if key not in known)
        where = _dotted((*problem.absolute_path, unknown))
        return f"{where}: unknown key; allowed here: {', '.join(known)}"
    if problem.validator == "required":
        missing = next(key for key in problem.validator_value if key not in problem.instance)
        return (
            f"{_dotted((*problem.absolute_path, missing))}: missing; add it (config/README.md "
            "describes every key)"
        )
    if problem.validator == "not":  # the schema has it for names of experiments alone
        return f"{path}.{problem.instance}: the name is taken by a part of every study; use another"
    value = problem.validator_value
    remedy = {
        "enum": lambda: f"use one of: {', '.join(map(str, value))}",
        "minimum": lambda: f"use {value} or more",
        "maximum": lambda: f"use {value} or less",
        "exclusiveMinimum": lambda: f"use more than {value}",
        "exclusiveMaximum": lambda: f"use less than {value}",
        "type": lambda: (
            f"use {' or '.join(value) if isinstance(value, list) else f'a value of type {value}'}"
        ),
        "minItems": lambda: f"give {value} or more entries",
        "maxLength": lambda: f"use at most {value} characters",
        "minProperties": lambda: f"give {value} or more entries",
        "pattern": lambda: f"it must match {value}",
    }.get(problem.validator, lambda: str(problem.message))()
    return f"{path or 'the configuration'}: {shortened(problem.instance)} is not allowed; {remedy}"


def _dotted(parts: Iterable[str | int]) -> str:
    text = ""
    for part in parts:
        key = str(part)[:100]  # a longer one is no key that a person wrote
        text += f"[{part}]" if isinstance(part, int) else f".{key}" if text else key
    return text
