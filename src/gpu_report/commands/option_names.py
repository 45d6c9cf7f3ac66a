"""Errors of the Python calls in the words of the command line: `--loss` where they name the
argument `loss`.

`loss: ...` or `give loss=` of a GpuReportError -> the names of what was typed -> the same error
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, Final

from gpu_report.errors import GpuReportError

_ARGUMENTS: Final = re.compile(
    r"(?P<before>^|: )(?P<named>\w+(?:, \w+)*)(?=: )|(?<![\w.(])(?P<given>\w+)=(?=[\s,;]|$)"
)


@contextmanager
def named_as_options(
    call: Callable[..., Any], arguments: Namespace, **others: str
) -> Iterator[None]:
    """Inside, errors name the arguments of this call as they are typed; `others` are not typed by
    their name.

    Raises:
        GpuReportError: as raised inside, with that text; an argument without an option stays one of
            Python.
    """
    names = {name: f"{name}= in Python" for name in signature(call).parameters}
    names |= {
        name: f"--{name.replace('_', '-')}" for name in vars(arguments) if name in names
    } | others

    def typed(found: re.Match[str]) -> str:
        if found["given"]:
            return names.get(found["given"], found[0])
        labels = found["named"].split(", ")
        return (
            found["before"] + ", ".join(names[name] for name in labels)
            if names.keys() >= {*labels}
            else found[0]
        )

    try:
        yield
    except GpuReportError as error:
        raise type(error)(_ARGUMENTS.sub(typed, str(error))) from error
